# SPDX-License-Identifier: MIT
"""The store: all or nothing, clear errors, bounded quarantine, retention."""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lab import Lab, MakeLab, Makers

from peel_gateway.engine.recount import recount
from peel_gateway.metrics import Metrics
from peel_gateway.model.message import Message
from peel_gateway.model.tables import ExposureFilter
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.sqlite.schema import APPLICATION_ID, MIGRATIONS, VERSION
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


def test_published_migrations_have_not_changed() -> None:
    """There are files that were made by them; a change goes into a new one."""
    digests = [hashlib.sha256(step.encode()).hexdigest()[:16] for step in MIGRATIONS]
    assert digests == [
        "ad051bbc7a8fb212",
        "da806aac5c29f3f3",
        "9d7fa6e52feafc39",
        "2db91ecec9b0ae98",
        "368362b9baa972dc",
        "f3c9494b8d6b3e34",
        "a5bc7f6bb57ff0c8",
        "fd14e39d77876148",
    ]


@pytest.fixture
def version_1(lab: Lab) -> Path:
    """A file made by the version 1 script, with the rows that an engine leaves: accepted, faulty, withdrawn, pruned, gaps."""
    lab.send(
        lab.frames(1, [*range(1, 50), *range(60, 101)]) + lab.frames(2, range(1, 101)) + lab.frames(3, range(1, 31))
    )
    lab.now += 86400
    lab.prune(lab.now)
    lab.send(lab.frames(1, range(101, 151)) + lab.frames(2, [101], rule=5) + lab.frames(4, range(1, 21)) + [b"junk"])
    lab.send(lab.frames(2, range(102, 111)))
    path: Path = lab.path.with_name("version_1.sqlite")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(MIGRATIONS[0])
    connection.execute("DELETE FROM meta")  # the script's zeros; the engine's values come with the rows
    connection.execute("ATTACH ? AS lab", (str(lab.path),))
    for (table,) in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall():
        if table == "evidence":
            continue
        names = [row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")]
        there = {row[1] for row in connection.execute(f"PRAGMA lab.table_info({table})")}
        values = ", ".join(name if name in there else "0" for name in names)
        connection.execute(f"INSERT INTO main.{table} SELECT {values} FROM lab.{table}")  # noqa: S608
    connection.execute(
        """INSERT INTO main.evidence SELECT device, profile, idx, 0, 0, 0, 0, 0, SUM(gaps) FROM (
               SELECT device, profile, idx, 1 AS gaps FROM lab.gap
               UNION ALL SELECT device, profile, idx, gaps FROM lab.pruned_gap) GROUP BY device, profile, idx"""
    )
    connection.execute("DELETE FROM counter WHERE kind = 'gap'")
    connection.execute("DELETE FROM meta WHERE key NOT IN ('generation', 'tick', 'wall', 'bucket_seconds')")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    return path


def contents(path: Path) -> tuple[int, list[str]]:
    """Schema version and everything that is in a file."""
    connection = sqlite3.connect(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    dump = list(connection.iterdump())
    connection.close()
    return version, dump


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


def test_a_version_1_file_is_migrated_and_adds_up(lab: Lab, version_1: Path) -> None:
    expected = lab.store.device_reports()
    assert expected == {
        1: {Verdict.ACCEPTED: 140},
        2: {Verdict.ACCEPTED: 100, Verdict.RULE: 1, Verdict.WITHDRAWN: 9},
        3: {Verdict.ACCEPTED: 30},
        4: {Verdict.ACCEPTED: 20},
    }
    lab.store.close()
    lab.store = SqliteStore(version_1)
    assert contents(version_1)[0] == VERSION
    assert lab.store.device_reports() == expected
    report = recount(lab.store, lab)
    assert (report.reports, report.devices, report.differences) == (300, 4, [])
    lab.engine = lab.make_engine()
    fault = lab.frames(1, [161], rule=5)  # withdraws what the file brought along
    assert lab.send(lab.frames(1, range(151, 161)) + fault) == {"rule": 1, "withdrawn": 10}
    assert lab.store.device_reports()[1] == {Verdict.ACCEPTED: 140, Verdict.RULE: 1, Verdict.WITHDRAWN: 10}
    assert recount(lab.store, lab).agrees


def test_a_migration_is_one_transaction(version_1: Path) -> None:
    observer = sqlite3.connect(version_1, isolation_level=None)
    seen: list[tuple[str, int]] = []

    def watch(statement: str) -> None:
        (version,) = observer.execute("PRAGMA user_version").fetchone()
        seen.append((statement.split("(")[0].strip(), version))

    store = WatchedStore(version_1, watch)
    began, filled, stamped, committed = (
        next(at for at, (statement, _) in enumerate(seen) if text in statement)
        for text in ("BEGIN", "INSERT INTO device_report", f"PRAGMA user_version = {VERSION}", "COMMIT")
    )
    assert began < filled < stamped < committed
    assert [statement for statement, _ in seen].count("COMMIT") == 1
    assert {version for _, version in seen[: committed + 1]} == {1}
    assert observer.execute("PRAGMA user_version").fetchone() == (VERSION,)
    store.close()
    observer.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to be killed while it migrates")
@pytest.mark.parametrize(
    "last", ["CREATE TABLE device_report", "INSERT INTO device_report", "PRAGMA user_version =", "COMMIT"]
)
def test_killed_in_the_middle_of_migrating(lab: Lab, version_1: Path, last: str) -> None:
    before = contents(version_1)

    def kill_at_last(statement: str) -> None:
        if last in statement:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            WatchedStore(version_1, kill_at_last)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, "the child was not killed where it should"
    assert contents(version_1) == before
    store = SqliteStore(version_1)
    assert contents(version_1)[0] == VERSION
    assert recount(store, lab).agrees
    store.close()


def test_a_full_disk_leaves_version_1_as_it_was(lab: Lab, version_1: Path) -> None:
    before = contents(version_1)
    with pytest.raises(StoreFull, match="disk is full"):
        WatchedStore(version_1, lambda _: None, pages=1)  # SQLite takes the least it can: what the file has
    assert contents(version_1) == before
    store = SqliteStore(version_1)
    assert recount(store, lab).agrees
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
    (pages,) = lab.store._writer.execute("PRAGMA page_count").fetchone()
    lab.store._writer.execute(f"PRAGMA max_page_count = {pages}")
    messages = lab.messages(lab.frames(1, range(11, 3000)) + lab.frames(2, range(1, 1000)))
    for _ in range(3):
        with pytest.raises(StoreFull, match="disk is full"):
            lab.engine.process(messages)
        assert lab.store.counts().verdicts[Verdict.ACCEPTED] == 10
        assert recount(lab.store, lab).agrees
    lab.store._writer.execute("PRAGMA max_page_count = 1000000")
    assert lab.engine.process(messages).counts == {Verdict.ACCEPTED: len(messages)}
    assert recount(lab.store, lab).agrees


def test_a_locked_database_applies_nothing_and_the_batch_can_be_retried(lab: Lab) -> None:
    lab.store._writer.execute("PRAGMA busy_timeout = 50")
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
    from peel_gateway.storage.sqlite import transaction as sqlite_transaction

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


def test_the_quarantine_is_bounded_oldest_first_and_counted(lab: Lab) -> None:
    lab.store.close()
    lab.store = SqliteStore(lab.path, quarantine_limit=50)
    lab.engine = lab.make_engine()
    lab.send(lab.frames(1, [1], rule=5))
    for batch in range(4):
        lab.send([b"junk %d %d" % (batch, i) for i in range(40)])
    counts = lab.store.counts()
    assert counts.quarantined == 51  # junk does not push out what exposes a device
    assert counts.dropped == {Verdict.MALFORMED: 110}
    assert counts.verdicts[Verdict.MALFORMED] == 160
    held = lab.store.exposures(ExposureFilter(blamed=False), limit=1000)
    assert held[-1].raw == b"junk 2 30" and held[0].raw == b"junk 3 39"
    assert recount(lab.store, lab).agrees


def test_no_device_pushes_out_what_exposed_another(lab: Lab) -> None:
    """One fault, one conviction by statistics; then two devices misbehave as often as they can."""
    lab.store.close()
    lab.store = SqliteStore(lab.path, quarantine_limit=120)
    lab.engine = lab.make_engine()
    lab.send(lab.frames(1, [1], rule=5))
    for number in range(1, 81, 10):
        lab.send([lab.sealed(2, n) for n in range(number, number + 10)])
    for start in range(1, 401, 40):
        lab.send([frame for device in (3, 4) for frame in lab.frames(device, range(start, start + 40), rule=5)])
    held = lab.store.exposures(limit=1000)
    assert [each.verdict for each in held if each.device == 1] == [Verdict.RULE]
    assert [each.verdict for each in held if each.device == 2] == [Verdict.STATISTICS]
    for device in (3, 4):
        assert min(each.number for each in held if each.device == device) == 1
        assert sum(each.device == device for each in held) <= 100
    counts = lab.store.counts()
    assert counts.quarantined == len(held) == 120
    assert counts.dropped == {Verdict.RULE: 801 - 119}
    assert counts.verdicts[Verdict.RULE] == 801
    assert recount(lab.store, lab).agrees


def test_what_must_stay_may_exceed_the_quarantine(lab: Lab) -> None:
    lab.store.close()
    lab.store = SqliteStore(lab.path, quarantine_limit=2)
    lab.engine = lab.make_engine()
    lab.send([frame for device in (1, 2, 3, 4) for frame in lab.frames(device, [1, 2], rule=5)])
    assert sorted((each.device, each.number) for each in lab.store.exposures()) == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert lab.store.counts().dropped == {Verdict.RULE: 4}
    assert recount(lab.store, lab).agrees


def test_the_quarantine_is_bounded_in_bytes(lab: Lab) -> None:
    lab.store.close()
    lab.store = SqliteStore(lab.path, quarantine_bytes=10_000)
    lab.engine = lab.make_engine()
    lab.send([bytes([i]) * 3000 for i in range(6)])
    assert lab.store.counts().quarantined_bytes <= 10_000
    assert lab.store.counts().quarantined == 3
    lab.send([b"x" * 20_000])
    assert lab.store.counts().quarantined == 0
    assert lab.store.counts().verdicts[Verdict.MALFORMED] == 7
    assert recount(lab.store, lab).agrees


def test_retention_keeps_the_sums_and_refuses_what_is_stale(lab: Lab) -> None:
    old = lab.frames(1, range(1, 101)) + lab.frames(2, range(1, 101))
    lab.send(old[:5] + old[10:])  # leaves gaps
    lab.now += 86400
    lab.send(lab.frames(1, range(101, 151)))
    before = lab.estimates()
    reports = lab.store.device_reports()
    assert lab.prune(lab.now - 3600) == 195
    assert lab.estimates() == before
    assert lab.store.device_reports() == reports
    assert recount(lab.store, lab).agrees
    assert lab.send(old[:20]) == {"stale": 20}
    assert lab.store.exposures()[0].blamed is False
    assert lab.send(lab.frames(2, range(101, 181))) == {"accepted": 80}
    assert lab.store.gaps().number.min(initial=999) > 100  # what was pruned is not taken for missing
    assert recount(lab.store, lab).agrees


@pytest.mark.parametrize("how", ["set", "at boot", "behind"])
def test_a_wrong_clock_deletes_nothing(lab: Lab, how: str) -> None:
    lab.send(lab.frames(1, range(1, 101)))
    assert lab.engine.prune(30 * 86400) == 0
    lab.now += 3600
    if how == "set":
        lab.skew = 90 * 86400
    else:
        lab.reboot(off=60, skew=90 * 86400 if how == "at boot" else -lab.now)
    for _ in range(3):
        assert lab.engine.prune(30 * 86400) is None
        lab.now += 3600
        lab.send(lab.frames(1, [lab.store.devices().last_number[0] + 1]))
    lab.skew = 0
    lab.engine.prune(30 * 86400)
    lab.now += 86400
    assert lab.engine.prune(30 * 86400) == 0
    lab.now += 40 * 86400
    assert lab.engine.prune(30 * 86400) == 103
    assert recount(lab.store, lab).agrees


def test_withdrawal_reaches_what_retention_has_dropped(lab: Lab) -> None:
    lab.send(lab.frames(1, range(1, 101)))
    lab.now += 86400
    lab.prune(lab.now)
    lab.send(lab.frames(1, range(101, 111)))
    lab.send(lab.frames(1, [111], rule=5))
    assert lab.store.counts().withdrawn_past == 110
    (whole,) = lab.estimates()
    assert (whole.n, whole.withdrawn) == (0, 110)
    assert recount(lab.store, lab).agrees


def test_tallies_by_time(lab: Lab) -> None:
    for minute in range(0, 60, 5):
        lab.now = 1_700_000_400.0 + 60 * minute
        lab.send(lab.frames(1, range(minute * 10 + 1, minute * 10 + 11)))
    profile = lab.profiles[0].id
    assert len(np.unique(lab.store.tallies(profile, bucket_seconds=300).bucket)) == 12
    assert len(np.unique(lab.store.tallies(profile, bucket_seconds=1800).bucket)) == 3  # it begins in the middle of one
    half = lab.store.tallies(profile, since=1_700_000_400 + 1800)
    assert int((half.plus + half.minus).sum()) == 60
    with pytest.raises(ValueError, match="multiple of 300"):
        lab.store.tallies(profile, bucket_seconds=7)


@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("tally", "UPDATE tally SET plus = plus + 1 WHERE idx = 0"),
        ("conduct", "UPDATE log SET cohort = 1 - cohort WHERE device = 1 AND number = 30"),
        ("conduct", "UPDATE log SET arrival = 99 - arrival WHERE device = 2 AND arrival IN (30, 69)"),
        ("conduct", "UPDATE conduct SET state = zeroblob(LENGTH(state)) WHERE device = 2"),
        ("filed", "UPDATE filed SET reports = reports + 1 WHERE device = 1"),
        ("tally", "UPDATE log SET bucket = bucket - 300 WHERE device = 1 AND number = 5"),
        ("gap", "UPDATE counter SET value = value + 1 WHERE kind = 'gap'"),
        ("device_report", "UPDATE device_report SET reports = reports - 1 WHERE device = 2"),
        ("device_report", "DELETE FROM device_report WHERE device = 1"),
        ("device_report", "INSERT INTO device_report VALUES (3, 0, 1)"),
        ("device_report", "UPDATE log SET verdict = 15 WHERE device = 2 AND number = 7"),
        ("counter", "UPDATE counter SET value = value + 1 WHERE kind = 'verdict' AND key = 0"),
        ("last_number", "UPDATE device SET last_number = 7 WHERE device = 1"),
        ("tally", "DELETE FROM log WHERE device = 1 AND number = 5"),
        ("tally", "UPDATE device SET withdrawn = 1 WHERE device = 2"),
        ("held", "DELETE FROM exposure"),
        ("gap", "UPDATE gap SET idx = (idx + 1) % 4"),
        ("gap", "UPDATE gap SET number = 20 WHERE number = 12"),
        ("gap", "UPDATE log SET late = 0 WHERE number = 14"),
        ("gap", "DELETE FROM gap WHERE number = 12"),
        ("gap", "UPDATE device SET settled = settled + 17 WHERE device = 1"),
    ],
)
def test_recount_notices_any_change(lab: Lab, table: str, statement: str) -> None:
    lab.send(lab.frames(1, [*range(1, 10), *range(15, 60)]) + lab.frames(2, range(1, 101)) + [b"junk"])
    lab.send(lab.frames(1, [14]))
    assert recount(lab.store, lab).agrees
    with sqlite3.connect(lab.path) as connection:
        connection.execute(statement)
    connection.close()
    assert table in {difference.table for difference in recount(lab.store, lab).differences}


def test_recount_of_a_long_jump_with_losses(lab: Lab) -> None:
    """Of a long jump only the last numbers are settled one by one: no difference, and still none after more loss and retention."""
    lab.send(lab.frames(1, range(1, 40)))
    lab.send(lab.frames(1, [n for n in range(60, 4000) if n % 7]))
    assert recount(lab.store, lab).agrees
    lab.now += 86400
    lab.send(lab.frames(1, [n for n in range(4000, 4500) if n % 5]))
    lab.prune(lab.now)
    lab.send(lab.frames(1, [n for n in range(4500, 4600) if n % 5]) + lab.frames(1, [4495, 4505]))
    assert lab.store.counts().gaps > 200
    assert recount(lab.store, lab).agrees


def test_recount_notices_a_conviction_that_the_log_does_not_support(lab: Lab) -> None:
    for number in range(1, 81, 10):
        lab.send([lab.sealed(1, n) for n in range(number, number + 10)])
    assert recount(lab.store, lab).agrees
    with sqlite3.connect(lab.path) as connection:
        connection.execute("UPDATE device SET withdrawn = 0, cause = 0")
    connection.close()
    assert any(difference.table == "device" for difference in recount(lab.store, lab).differences)


def reports_total(store: SqliteStore) -> dict[str, float]:
    """The counter that Prometheus reads, by verdict."""
    metrics = Metrics()
    metrics.watch_store(store)
    (family,) = (each for each in metrics.registry.collect() if each.name == "peel_reports")
    return {sample.labels["verdict"]: sample.value for sample in family.samples}


def test_replay_counts_a_forgotten_device_once(make_lab: MakeLab) -> None:
    from peel_gateway.engine.replay import replay

    lab = make_lab()
    lab.keyring = lab.keyring_of(lab.ids[1:])
    lab.engine.load(lab)
    frames = lab.frames(1, range(1, 21))
    assert lab.send([*frames, b"junk"]) == {"device": 20, "malformed": 1}
    counters = [reports_total(lab.store)]
    received = lab.now
    lab.now += 7200
    assert replay(lab.store, lab.engine).counts == {Verdict.DEVICE: 20, Verdict.MALFORMED: 1}
    counters.append(reports_total(lab.store))
    lab.keyring = lab.whole
    lab.engine.load(lab)
    report = replay(lab.store, lab.engine, ExposureFilter(verdicts=frozenset({Verdict.DEVICE})))
    assert (report.pieces, report.accepted) == (20, 20)
    assert replay(lab.store, lab.engine).counts == {Verdict.MALFORMED: 1}
    assert lab.send(frames) == {"redelivered": 20}
    tallies = lab.store.tallies(lab.profiles[0].id, bucket_seconds=300)
    assert set(tallies.bucket.tolist()) == {int(received) // 300 * 300}
    counters.append(reports_total(lab.store))
    for before, after in itertools.pairwise(counters):
        assert all(after[key] >= value for key, value in before.items()), "a counter fell"
    assert lab.store.counts().verdicts[Verdict.DEVICE] == 0
    assert lab.store.device_reports() == {1: {Verdict.ACCEPTED: 20}}
    assert recount(lab.store, lab).agrees


def test_replay_splits_the_rest_behind_an_unknown_profile(make_lab: MakeLab, profiles: Makers) -> None:
    from peel_core import Keyring
    from peel_gateway.engine.replay import replay

    lab = make_lab(profiles[0](4), profiles[1](4), devices=2)
    lab.keyring = Keyring(lab.profiles[:1], [1], 1, [0], lab.keys_of(1, [1]))
    lab.engine.load(lab)
    payload = b"".join(lab.frames(1, [1]) + lab.frames(2, [1, 2]) + lab.frames(1, [2]))
    assert lab.send([payload]) == {"accepted": 1, "profile": 1}
    lab.keyring = lab.whole
    lab.engine.load(lab)
    assert replay(lab.store, lab.engine).counts == {Verdict.ACCEPTED: 3}
    assert recount(lab.store, lab).agrees


def test_replay_leaves_exposed_devices_alone(lab: Lab) -> None:
    from peel_gateway.engine.replay import replay

    lab.send(lab.frames(1, [1], rule=5))
    assert replay(lab.store, lab.engine).pieces == 0
    with pytest.raises(ValueError, match="only quarantined"):
        replay(lab.store, lab.engine, ExposureFilter(verdicts=frozenset({Verdict.RULE})))
    assert len(lab.store.exposures()) == 1


def test_messages_from_before_1970_do_not_break_the_buckets(lab: Lab) -> None:
    lab.engine.process([Message("t", frame, -5.0) for frame in lab.frames(1, [1])])
    assert recount(lab.store, lab).agrees


def test_device_tallies_are_the_tallies_of_each_device(make_lab: MakeLab, profiles: Makers) -> None:
    """Over buckets, spans, two profiles, a withdrawn device and pruned rows: summed over devices they are the tallies."""
    lab = make_lab(profiles[0](4), profiles[1](4), devices=6)
    for hour in range(4):
        lab.now = 1_700_000_400.0 + 3600 * hour
        for device in range(1, 7):
            lab.send(lab.frames(device, range(100 * hour + 1, 100 * hour + 2 + 7 * device)))
        if hour == 1:
            assert lab.prune(lab.now - 1800) > 0
    lab.send(lab.frames(3, [900], rule=5))
    for profile in lab.profiles:
        for span in (
            {},
            {"bucket_seconds": 300},
            {"bucket_seconds": 7200, "since": 1_700_003_000},
            {"until": 1_700_009_000},
        ):
            devices = lab.store.device_tallies(profile.id, **span)
            tallies = lab.store.tallies(profile.id, **span)
            assert len(devices) > len(tallies) > 0
            assert (np.lexsort((devices.index, devices.device, devices.bucket)) == np.arange(len(devices))).all()
            cells = {cell: i for i, cell in enumerate(zip(tallies.bucket, tallies.index, strict=True))}
            place = [cells[cell] for cell in zip(devices.bucket, devices.index, strict=True)]
            for column, counted in (
                ("plus", 1),
                ("minus", 1),
                ("withdrawn_plus", devices.withdrawn),
                ("withdrawn_minus", devices.withdrawn),
            ):
                counts = getattr(devices, column.removeprefix("withdrawn_")) * counted
                assert (np.bincount(place, counts, len(tallies)) == getattr(tallies, column)).all()
    harmony = lab.store.device_tallies(lab.profiles[0].id)
    assert np.unique(harmony.device).tolist() == [1, 3, 5]
    assert np.unique(harmony.device[harmony.withdrawn > 0]).tolist() == [3]
    assert len(lab.store.device_tallies(1)) == 0
    with pytest.raises(ValueError, match="multiple of 300"):
        lab.store.device_tallies(lab.profiles[0].id, bucket_seconds=7)


def test_a_long_question_keeps_no_short_one_waiting(lab: Lab) -> None:
    """While somebody reads the device tallies, others read and write."""
    lab.send(lab.frames(1, range(1, 101)))
    with lab.store._read_long() as connection:
        assert connection.execute("SELECT COUNT(*) FROM log").fetchone() == (100,)
        lab.send(lab.frames(2, range(1, 51)))
        assert int(lab.store.tallies(lab.profiles[0].id).plus.sum()) > 0
        assert connection.execute("SELECT COUNT(*) FROM log").fetchone() == (100,)
    assert lab.store.device_tallies(lab.profiles[0].id).device.max() == 2
