# SPDX-License-Identifier: MIT
"""Dead letters: on disk before they count, bounded, and deleted by a replay only after their commit."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from lab import Lab

from peel_gateway.engine.engine import BatchReport, Engine
from peel_gateway.engine.replay import replay_dead_letters
from peel_gateway.model.messages import Message
from peel_gateway.model.partition import Partition
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.dead_letters import DeadLetterError, DeadLetters
from peel_gateway.storage.records import read_log
from peel_gateway.storage.sqlite.connection import translated
from peel_gateway.storage.store import StoreAway, StoreRejected

TOPIC = "peel/v1/lab/01/00000001/report"


@pytest.fixture
def letters(tmp_path: Path) -> DeadLetters:
    return DeadLetters(tmp_path / "peel.sqlite.dead-letters")


def test_a_message_comes_back_as_it_was(letters: DeadLetters) -> None:
    message = Message("peel/\ufffd/\x00", bytes(range(256)), 1_700_000_000.125)
    assert letters.read(letters.put(message)) == message


def test_a_message_that_comes_again_has_one_file_and_other_topics_have_their_own(letters: DeadLetters) -> None:
    for topic in (TOPIC, TOPIC, TOPIC + "x"):
        letters.put(Message(topic, b"poison", 1.0))
    assert len(letters) == 2


def test_file_and_folders_are_on_disk_before_it_counts(letters: DeadLetters, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(Path(f"/proc/self/fd/{file}").readlink()))
    letters.put(Message(TOPIC, b"poison", 1.0))
    parent, content, folder = synced
    assert (parent, folder) == (letters.folder.parent, letters.folder)
    assert content.parent == letters.folder


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_failed_fsync_is_no_dead_letter(letters: DeadLetters, monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """A retry writes a new file: what a failed fsync has left of the old one is not trusted."""
    count = 0

    def fsync(_: int) -> None:
        nonlocal count
        count += 1
        if count == call:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(DeadLetterError, match="Input/output error"):
        letters.put(Message(TOPIC, b"poison", 1.0))
    path = letters.put(Message(TOPIC, b"poison", 1.0))
    assert list(letters.folder.iterdir()) == [path]


def test_the_folder_is_bounded(letters: DeadLetters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peel_gateway.storage.dead_letters.MOST_FILES", 2)
    for number in (1, 2):
        letters.put(Message(TOPIC, b"%d" % number, 1.0))
    with pytest.raises(DeadLetterError, match=r"limit of 2 dead letters.*peel gateway replay --dead-letters"):
        letters.put(Message(TOPIC, b"3", 1.0))
    letters.put(Message(TOPIC, b"2", 1.0))
    assert len(letters) == 2


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"topic": "t", "payload": "0g", "received": 1}'])
def test_another_file_in_the_folder_is_reported_and_kept(lab: Lab, letters: DeadLetters, content: str) -> None:
    letters.folder.mkdir()
    path = letters.folder / "other.json"
    path.write_text(content)
    report = replay_dead_letters(letters, lab.engine, Partition())
    assert (report.pieces, list(report.kept)) == (0, [path])
    assert "not a dead letter" in report.kept[path]
    assert path.exists()


@pytest.mark.parametrize("make_database", ["sqlite", "postgres"], indirect=True)
def test_a_replay_counts_each_once_and_keeps_what_fails_again(
    lab: Lab, letters: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad, known = (
        letters.put(Message(TOPIC, payload, 7.0)) for payload in [*lab.frames(1, [1]), b"bad", *lab.frames(1, [2])]
    )
    lab.send([letters.read(known).payload])
    process = Engine.process

    def fail(engine: Engine, messages: Any, **options: Any) -> BatchReport:
        if messages[0].payload == b"bad":
            raise ValueError("still wrong")
        return process(engine, messages, **options)

    monkeypatch.setattr(Engine, "process", fail)
    report = replay_dead_letters(letters, lab.engine, Partition())
    assert report.pieces == 2
    assert report.counts == {Verdict.ACCEPTED: 1, Verdict.REDELIVERED: 1}
    assert report.kept == {bad: "ValueError('still wrong')"}
    assert not good.exists()
    assert read_log(lab.store).number.tolist() == [1, 2]
    assert letters.files() == [bad]


def test_a_store_that_fails_leaves_the_file(lab: Lab, letters: DeadLetters, monkeypatch: pytest.MonkeyPatch) -> None:
    path = letters.put(Message(TOPIC, lab.frames(1, [1])[0], 7.0))

    def fail(*_: Any, **__: Any) -> BatchReport:
        raise StoreAway("the server cannot be reached")

    monkeypatch.setattr(Engine, "process", fail)
    with pytest.raises(StoreAway):
        replay_dead_letters(letters, lab.engine, Partition())
    assert letters.files() == [path]


def test_each_partition_takes_its_own(lab: Lab, letters: DeadLetters) -> None:
    topics = {2: "peel/v1/lab/02/00000002/report", 0: "no lane at all"}
    for topic in topics.values():
        letters.put(Message(topic, b"junk", 1.0))
    for number in range(4):
        report = replay_dead_letters(letters, lab.engine, Partition(number, 4))
        assert report.pieces == (number in topics)


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES ('a')", "SELECT zeroblob(2000000000)"],
    ids=["constraint", "mismatch", "too big"],
)
def test_sqlite_tells_rejected_data_from_failures(tmp_path: Path, statement: str) -> None:
    connection = sqlite3.connect(tmp_path / "t.sqlite")
    connection.execute("CREATE TABLE t (x INTEGER PRIMARY KEY)")
    connection.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(StoreRejected, match="the database rejected the data"), translated(tmp_path / "t.sqlite"):
        connection.execute(statement)
    connection.close()
