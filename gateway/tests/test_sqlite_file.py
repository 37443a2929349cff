# SPDX-License-Identifier: MIT
"""The SQLite file: made in one step, durable, private, all or nothing, with clear errors."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import Lab

from peel_gateway.engine.recount import recount
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.sql.schema import schema_version
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_gateway.storage.store import (
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreMismatch,
    StoreTooNew,
)

VERSION = schema_version()


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Whatever the umask, and with the files that SQLite puts beside it."""
    before = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "a.sqlite")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert modes == {"a.sqlite": 0o600, "a.sqlite-wal": 0o600, "a.sqlite-shm": 0o600}


def test_every_commit_is_durable(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "a.sqlite")
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


class WithoutSharedMemory(SqliteStore):
    """A store on a file system that cannot share memory: SQLite keeps `delete` there, and raises nothing."""

    def _connect_file(self) -> sqlite3.Connection:
        return sqlite3.connect(f"{self.path.as_uri()}?vfs=unix-none", uri=True, isolation_level=None)


def test_a_file_without_a_write_ahead_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match=r"a\.sqlite: journal_mode must be 'wal', SQLite answered 'delete'"):
        WithoutSharedMemory(tmp_path / "a.sqlite")
    store = SqliteStore(tmp_path / "a.sqlite")
    store.check()
    store.close()


class WithoutSync(SqliteStore):
    """A store whose connections ignore what is asked of `synchronous`."""

    def _connect_file(self) -> sqlite3.Connection:
        connection = super()._connect_file()
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.set_authorizer(
            lambda action, name, value, *_: (
                sqlite3.SQLITE_IGNORE
                if (action, name) == (sqlite3.SQLITE_PRAGMA, "synchronous") and value is not None
                else sqlite3.SQLITE_OK
            )
        )
        return connection


def test_a_connection_that_does_not_sync_every_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match=r"a\.sqlite: synchronous must be 2, SQLite answered 1"):
        WithoutSync(tmp_path / "a.sqlite")


def test_the_schema_version_is_recorded_and_newer_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    SqliteStore(path).close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="upgrade the gateway"):
        SqliteStore(path)
    assert path.read_bytes() == before


def contents(path: Path) -> tuple[int, list[str]]:
    """Schema version and everything that is in a file."""
    connection = sqlite3.connect(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    dump = list(connection.iterdump())
    connection.close()
    return version, dump


def writer_of(lab: Lab) -> sqlite3.Connection:
    assert isinstance(lab.store, SqliteStore)
    return lab.store._writer


class WatchedStore(SqliteStore):
    """Tells of each statement before SQLite runs it."""

    def __init__(self, path: Path, watch: Callable[[str], object], pages: int = 1_000_000) -> None:
        self._watch, self._pages = watch, pages
        super().__init__(path)

    def _connect(self) -> sqlite3.Connection:
        connection = super()._connect()
        connection.set_trace_callback(self._watch)
        connection.execute(f"PRAGMA max_page_count = {self._pages}")
        return connection


def test_a_file_is_made_in_one_transaction(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    observer: sqlite3.Connection = sqlite3.connect(path, isolation_level=None)
    seen: list[tuple[str, int]] = []

    def watch(statement: str) -> None:
        (version,) = observer.execute("PRAGMA user_version").fetchone()
        seen.append((statement, version))

    store = WatchedStore(path, watch)
    began, created, stamped, committed = (
        next(at for at, (statement, _) in enumerate(seen) if text in statement)
        for text in ("BEGIN", "CREATE TABLE log", f"PRAGMA user_version = {VERSION}", "COMMIT")
    )
    assert began < created < stamped < committed
    assert [statement for statement, _ in seen].count("COMMIT") == 1
    assert {version for _, version in seen[: committed + 1]} == {0}
    assert observer.execute("PRAGMA user_version").fetchone() == (VERSION,)
    store.close()
    observer.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to be killed while it makes a file")
@pytest.mark.parametrize("last", ["CREATE TABLE pruned", "INSERT INTO meta", "PRAGMA user_version =", "COMMIT"])
def test_killed_in_the_middle_of_making_a_file(tmp_path: Path, last: str) -> None:
    path = tmp_path / "a.sqlite"

    def kill_at_last(statement: str) -> None:
        if last in statement:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            WatchedStore(path, kill_at_last)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, "the child was not killed where it should"
    assert contents(path)[0] == 0
    store = SqliteStore(path)
    assert contents(path)[0] == VERSION
    store.check()
    store.close()


def test_a_file_that_a_newer_gateway_migrates_meanwhile_is_not_written(lab: Lab) -> None:
    lab.send(lab.frames(1, range(1, 11)))
    with sqlite3.connect(lab.path) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    before = contents(lab.path)
    with pytest.raises(StoreTooNew, match="upgrade the gateway"):
        lab.send(lab.frames(1, range(11, 21)))
    with pytest.raises(StoreTooNew, match="upgrade the gateway"):
        lab.prune(lab.now + 3600)
    assert contents(lab.path) == before


@pytest.mark.parametrize(
    "content", [b"not a database at all, but longer than a header" * 30, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"a\.sqlite"):
        SqliteStore(path)
    assert path.read_bytes() == content


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match="not a Peel one"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="cannot be opened"):
        SqliteStore(tmp_path / "no" / "a.sqlite")


def test_damage_in_the_middle_is_reported(lab: Lab) -> None:
    lab.send(lab.frames(1, range(1, 3000)))
    lab.store.close()
    content = bytearray(lab.path.read_bytes())
    content[4096 * 6 : 4096 * 12] = b"\x5a" * (4096 * 6)
    lab.path.write_bytes(content)
    with pytest.raises(StoreCorrupt):
        store = SqliteStore(lab.path)
        try:
            store.check()
        finally:
            store.close()
    assert lab.path.read_bytes()[4096 * 6 : 4096 * 12] == b"\x5a" * (4096 * 6)


def test_another_bucket_than_the_files(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "a.sqlite", bucket_seconds=10).close()
    with pytest.raises(StoreMismatch, match="10 s"):
        SqliteStore(tmp_path / "a.sqlite", bucket_seconds=60)
    store = SqliteStore(tmp_path / "a.sqlite")
    assert store.bucket_seconds == 10
    store.close()


def test_a_full_disk_applies_nothing_and_the_batch_can_be_retried(lab: Lab) -> None:
    lab.send(lab.frames(1, range(1, 11)))
    (pages,) = writer_of(lab).execute("PRAGMA page_count").fetchone()
    writer_of(lab).execute(f"PRAGMA max_page_count = {pages}")
    messages = lab.messages(lab.frames(1, range(11, 3000)) + lab.frames(2, range(1, 1000)))
    for _ in range(3):
        with pytest.raises(StoreFull, match="disk is full"):
            lab.engine.process(messages)
        assert lab.store.counts().verdicts[Verdict.ACCEPTED] == 10
        assert recount(lab.store, lab).agrees
    writer_of(lab).execute("PRAGMA max_page_count = 1000000")
    assert lab.engine.process(messages).counts == {Verdict.ACCEPTED: len(messages)}
    assert recount(lab.store, lab).agrees


def test_a_locked_database_applies_nothing_and_the_batch_can_be_retried(lab: Lab) -> None:
    writer_of(lab).execute("PRAGMA busy_timeout = 50")
    intruder = sqlite3.connect(lab.path, isolation_level=None)
    intruder.execute("BEGIN IMMEDIATE")
    messages = lab.messages(lab.frames(1, range(1, 11)))
    with pytest.raises(StoreLocked, match="another process"):
        lab.engine.process(messages)
    intruder.execute("ROLLBACK")
    intruder.close()
    assert lab.engine.process(messages).counts == {Verdict.ACCEPTED: 10}


def test_a_reader_opens_the_file_while_another_process_writes(lab: Lab) -> None:
    lab.send(lab.frames(1, range(1, 11)))
    with lab.store.begin():
        other = SqliteStore(lab.path, timeout=0.05)
        assert other.counts().verdicts[Verdict.ACCEPTED] == 10
        other.close()


def test_an_exception_within_a_transaction_rolls_back(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from peel_gateway.storage.sql import transaction as sqlite_transaction

    messages = lab.messages(lab.frames(1, range(1, 11)))
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_transaction, "add_tallies", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            lab.engine.process(messages)
    assert lab.engine.process(messages).counts == {Verdict.ACCEPTED: 10}
    assert recount(lab.store, lab).agrees


def test_readers_do_not_wait_for_a_writer(lab: Lab) -> None:
    lab.send(lab.frames(1, range(1, 11)))
    seen = []
    with lab.store.begin():
        reader = threading.Thread(target=lambda: seen.append(lab.store.counts().verdicts[Verdict.ACCEPTED]))
        reader.start()
        reader.join(5)
    assert seen == [10]


def test_room_is_given_back_many_pages_at_a_time(lab: Lab) -> None:
    """A transaction for each page would keep the gateway from storing anything else for minutes."""
    writer = writer_of(lab)
    writer.execute("CREATE TABLE ballast AS SELECT zeroblob(1000000)")
    writer.execute("DROP TABLE ballast")
    assert writer.execute("PRAGMA freelist_count").fetchone() > (200,)
    with lab.store.begin() as transaction:
        assert not transaction.give_back()
    assert writer.execute("PRAGMA freelist_count").fetchone() == (0,)


@pytest.mark.slow
def test_totals_do_not_look_at_every_device(tmp_path: Path) -> None:
    """A page and a scraper ask for them all the time, and a fleet may have a million devices."""
    store = SqliteStore(tmp_path / "a.sqlite")
    columns = [row[1] for row in store._writer.execute("PRAGMA table_info(device)")]
    honest = ["" if name == "holes" else 0 for name in columns]

    def add(device: int, **exposed: int) -> None:
        values = dict(zip(columns, honest, strict=True)) | {"device": device} | exposed
        store._writer.execute(f"INSERT INTO device VALUES ({', '.join('?' * len(columns))})", list(values.values()))

    def steps() -> int:
        """Instructions of SQLite that the totals take, by the hundred."""
        taken: list[None] = []
        store._reader.set_progress_handler(lambda: taken.append(None), 100)
        counts = store.counts()
        assert (counts.exposed_devices, counts.withdrawn_devices) == (2, 1)
        return len(taken)

    add(1, cause=Verdict.RULE, withdrawn=1)
    add(2, cause=Verdict.FLOOD)
    few = steps()
    for device in range(3, 5003):
        add(device)
    assert steps() <= few + 10
    store.close()
