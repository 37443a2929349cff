# SPDX-License-Identifier: MIT
"""From the inbox to the store: what is acknowledged is in the database or a dead letter, and nothing blocks the others."""

from __future__ import annotations

import errno
import itertools
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from databases import PostgresSchema
from helpers import wait_until
from lab import Lab

from peel_core.receipts import Receipt, read_receipt
from peel_gateway.engine.engine import BatchReport, Engine
from peel_gateway.metrics import Metrics
from peel_gateway.model.messages import Message, MessageBatch
from peel_gateway.model.tables import DeviceTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.mqtt.connection import InFlight
from peel_gateway.mqtt.inbox import Inbox
from peel_gateway.mqtt.ingest import Ingest
from peel_gateway.mqtt.receipts import Publish, Receipts
from peel_gateway.notifiers.alarm import Alarm
from peel_gateway.settings import Settings
from peel_gateway.storage.dead_letters import DeadLetters
from peel_gateway.storage.postgres.leases import PostgresLeases
from peel_gateway.storage.records import read_log
from peel_gateway.storage.store import (
    StoreAway,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreLost,
    StoreRejected,
)

POISON = b"poison"


class FakeClient:
    """Takes acknowledgements down; everything else of a client is not asked for."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []

    def acknowledge(self, batch: Sequence[InFlight]) -> None:
        self.acknowledged += [identifier for delivery in batch for identifier in delivery.identifiers.tolist()]


def make_ingest(
    path: Path,
    engine: Engine,
    client: FakeClient,
    metrics: Metrics,
    messages: Sequence[Message],
    *,
    post: Publish = lambda receipts: None,
) -> Ingest:
    """One whose inbox has these messages, one by one, numbered from 1."""
    inbox = Inbox(limit_messages=100, limit_bytes=10**6)
    anybody: Any = client
    link: Any = None
    for identifier, message in enumerate(messages, start=1):
        inbox.put(InFlight(MessageBatch.of([message]), link, np.array([identifier], np.uint16), time.monotonic()))
    return Ingest(
        Settings(store_path=path, fleet_folder=path.parent),
        engine,
        inbox,
        anybody,
        metrics,
        alarm=Alarm(metrics, lambda about, document: None),
        receipts=Receipts(engine, "lab", post, pause=10),
        on_end=lambda: None,
    )


def test_a_partition_that_is_anothers_ends_the_ingest_and_nothing_is_acknowledged(
    lab: Lab, new_schema: Callable[[], PostgresSchema]
) -> None:
    """Not tried again, not set aside: the new owner gets these messages from the broker."""
    schema = new_schema()
    archive = schema.archive(partitions=1)
    leases = PostgresLeases(archive.address)
    first = leases.acquire(0, "first", 0.001)
    assert first is not None
    engine = Engine(schema.open(epoch=first.epoch))
    engine.load(lab)
    assert engine.process(lab.messages(lab.frames(1, range(1, 4)))).counts == {Verdict.ACCEPTED: 3}
    assert leases.acquire(0, "second", 60) is not None
    client, metrics = FakeClient(), Metrics()
    ingest = make_ingest(lab.path, engine, client, metrics, lab.messages(lab.frames(1, range(4, 9))))
    ingest.start()
    assert ingest.stop(30)
    assert isinstance(ingest.failure, StoreLost)
    assert client.acknowledged == []
    assert archive.counts().verdicts[Verdict.ACCEPTED] == 3
    assert not lab.path.with_name(lab.path.name + ".dead-letters").exists()
    for each in (engine.store, leases, archive):
        each.close()


Process = Callable[..., BatchReport]


class Attempts:
    """Stands before `Engine.process`: counts its uses with messages, and lets some of them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: Callable[[Attempts], Exception | None]) -> None:
        self.count = self.alone = 0
        self.payloads: list[bytes] = []
        self._fails = fails
        self._process: Process = Engine.process
        attempts = self

        def process(engine: Engine, messages: Any, **options: Any) -> BatchReport:
            return attempts._take(engine, messages, **options)

        monkeypatch.setattr(Engine, "process", process)

    def _take(self, engine: Engine, messages: Any, **options: Any) -> BatchReport:
        if len(messages):
            self.payloads = [messages.payload(place) for place in range(len(messages))]
            self.count += 1
            self.alone += self.payloads == [POISON]
            error = self._fails(self)
            if error is not None:
                raise error
        return self._process(engine, messages, **options)


def poisoned(lab: Lab) -> list[Message]:
    """Twenty reports, the eighth of which is `POISON`."""
    frames = lab.frames(1, range(1, 21))
    frames[7] = POISON
    return lab.messages(frames)


def letters_of(lab: Lab) -> DeadLetters:
    return DeadLetters(lab.path.with_name(lab.path.name + ".dead-letters"))


@pytest.mark.parametrize("error", [ValueError("cannot be understood"), StoreRejected("string or blob too big")])
def test_a_message_that_fails_alone_again_and_again_becomes_a_dead_letter(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    attempts = Attempts(monkeypatch, lambda attempts: error if POISON in attempts.payloads else None)
    client = FakeClient()
    ingest = make_ingest(lab.path, lab.engine, client, Metrics(), poisoned(lab))
    ingest.start()
    assert ingest.stop(60)
    assert ingest.failure is None
    assert attempts.alone == 3
    assert client.acknowledged == list(range(1, 21))
    assert read_log(lab.store).number.tolist() == [*range(1, 8), *range(9, 21)]
    (kept,) = letters_of(lab).files()
    assert letters_of(lab).read(kept).payload == POISON
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def test_a_message_that_fails_alone_twice_is_stored(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(attempts: Attempts) -> Exception | None:
        return ValueError("not yet") if POISON in attempts.payloads and attempts.alone < 3 else None

    Attempts(monkeypatch, fails)
    client = FakeClient()
    ingest = make_ingest(lab.path, lab.engine, client, Metrics(), poisoned(lab))
    ingest.start()
    assert ingest.stop(60)
    assert client.acknowledged == list(range(1, 21))
    counts = lab.store.counts().verdicts
    assert (counts[Verdict.ACCEPTED], counts[Verdict.MALFORMED]) == (19, 1)
    assert len(letters_of(lab)) == 0


@pytest.mark.parametrize(
    "error",
    [
        StoreFailed("disk I/O error"),
        StoreAway("the session was ended"),
        StoreFull("no space"),
        StoreLocked("locked"),
        MemoryError(),
        OSError(errno.EMFILE, "too many open files"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_message_is_blamed_for_a_failing_store(lab: Lab, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Commits with messages fail, and empty ones succeed, which is how chance may have it."""
    monkeypatch.setattr("peel_gateway.mqtt.ingest._LONGEST_BACKOFF_SECONDS", 0.001)
    attempts = Attempts(monkeypatch, lambda attempts: error if attempts.count <= 12 else None)
    client, metrics = FakeClient(), Metrics()
    ingest = make_ingest(lab.path, lab.engine, client, metrics, lab.messages(lab.frames(1, range(1, 21))))
    ingest.start()
    wait_until(lambda: len(client.acknowledged) == 20)
    assert ingest.stop(60)
    assert attempts.count == 13
    assert client.acknowledged == list(range(1, 21))
    assert read_log(lab.store).number.tolist() == list(range(1, 21))
    assert len(letters_of(lab)) == 0
    kind = type(error).__name__
    assert f'peel_store_failures_total{{kind="{kind}"}} 12.0'.encode() in metrics.exposition()


@pytest.mark.parametrize("obstacle", ["full folder", "no folder"])
def test_a_message_that_is_nowhere_is_not_acknowledged(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    """It blocks what is behind it, and the health says why, until there is room for its dead letter."""
    Attempts(monkeypatch, lambda attempts: ValueError("no") if POISON in attempts.payloads else None)
    folder = letters_of(lab).folder
    if obstacle == "full folder":
        monkeypatch.setattr("peel_gateway.storage.dead_letters.MOST_FILES", 1)
        folder.mkdir()
        blocking, cause = folder / "another.json", "its limit of 1 dead letters"
    else:
        blocking, cause = folder, "cannot be written"
    blocking.touch()
    client = FakeClient()
    ingest = make_ingest(lab.path, lab.engine, client, Metrics(), poisoned(lab))
    ingest.start()
    wait_until(lambda: cause in (ingest.problem() or (0, ""))[1])
    assert client.acknowledged == []
    blocking.unlink()
    wait_until(lambda: len(client.acknowledged) == 20)
    assert ingest.problem() is None
    assert ingest.stop(60)
    assert [letters_of(lab).read(path).payload for path in letters_of(lab).files()] == [POISON]


def test_a_stop_before_the_dead_letter_is_written_acknowledges_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    Attempts(monkeypatch, lambda attempts: ValueError("no") if POISON in attempts.payloads else None)
    letters_of(lab).folder.touch()
    client = FakeClient()
    ingest = make_ingest(lab.path, lab.engine, client, Metrics(), poisoned(lab))
    ingest.start()
    wait_until(lambda: ingest.problem() is not None)
    assert ingest.stop(60)
    assert (client.acknowledged, ingest.abandoned) == ([], 20)


@pytest.mark.slow
@pytest.mark.parametrize("make_database", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("error", [StoreAway("the session was ended"), StoreFailed("disk I/O error")])
def test_receipts_wait_until_the_store_can_be_read(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: StoreError
) -> None:
    """The engine looks devices up that it has not in memory."""
    lab.engine = lab.make_engine(cache_bytes=1)
    read, failures = lab.store.devices, itertools.repeat(error, 3)

    def devices(only: Any = None) -> DeviceTable:
        for failure in failures:
            raise failure
        return read(only)

    monkeypatch.setattr(lab.store, "devices", devices)
    posted: list[tuple[str, bytes]] = []
    client, metrics = FakeClient(), Metrics()
    messages = lab.messages([*lab.frames(1, [1]), *lab.frames(2, [1, 2]), *lab.frames(3, [1])])
    ingest = make_ingest(tmp_path / "peel.sqlite", lab.engine, client, metrics, messages, post=posted.extend)
    ingest.start()
    wait_until(lambda: bool(posted))
    assert ingest.stop(60)
    assert ingest.failure is None
    receipts = [
        read_receipt(bytes(lab.keys_of(device, [1]).receipt[0]), device, payload)
        for device, (_, payload) in enumerate(posted, start=1)
    ]
    assert receipts == [Receipt(1), Receipt(2), Receipt(1)]
    assert client.acknowledged == [1, 2, 3, 4]
    assert f'peel_store_failures_total{{kind="{type(error).__name__}"}} 3.0'.encode() in metrics.exposition()
