# SPDX-License-Identifier: MIT
"""The costs of answers: CPU time and memory of the questions of page and API, by reports and devices, on SQLite or PostgreSQL.

No report passes through the engine: the sums of every bucket are written with the store's own functions, and larger units are built from
them as in a gateway. So a size of 10^8 reports takes minutes instead of hours. The reports of the last 20 minutes are in the log and not
yet in the roll-ups, as in a gateway. Older ones are not in the log. Its bytes per report, as of one compressed segment, are added to
`bytes_per_report`.

Reports are spread evenly over 90 days, 16 attributes and all devices. There are ten tags. PostgreSQL has the default number of partitions.

Each size has a database to itself. One process fills it, and a new process asks, so that the memory of filling does not count.

Times are CPU time without the cache of answers, the better of two rounds. On PostgreSQL the CPU time of the server is added: of its
postmaster, of all backends, ended or running, and of its background processes. Linux reports it in steps of 10 ms, so a round asks each
question four times. Autovacuum is off; the tables are vacuumed and analysed before. `page_worst_ms` is the slowest question of the page,
`api_worst_ms` that of all.

Memory is the largest resident size of the asking process. On PostgreSQL the largest sum of the private memory of the server's processes,
sampled every 10 ms, is added; shared buffers are not.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
import numpy.typing as npt
import psycopg

from peel_gateway.estimation.estimate import Choice
from peel_gateway.model.grouping import add_up
from peel_gateway.model.tables import RollupTable, TallyTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.queries.cache import QueryCache
from peel_gateway.queries.estimates import EstimateQuestion, Tag, estimate_tables
from peel_gateway.storage.postgres.store import PostgresArchive, PostgresStore
from peel_gateway.storage.records import RECORD, Columns, Records, seal
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.log import LogWriter
from peel_gateway.storage.sql.rollups import DAY, Extent, add_rollups, add_tallies, build
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_gateway.storage.store import Archive, Store
from peel_research.bench.alone import alone
from peel_research.bench.load import rss_mb
from peel_research.bench.workload import bench_profile
from peel_tools.servers.postgres import PostgresServer

__all__ = ["DEVICES", "REPORTS", "STORES", "measure"]

REPORTS, DEVICES = (10**5, 10**6, 10**7, 10**8), (10**2, 10**4, 10**5)
STORES = ("sqlite", "postgres")
_K, _DAYS, _TAGS = 16, 90, 10
_TAIL_SECONDS = 1200
_ASKERS = 40
_SHARE_CAP = 0.1
_SAMPLE_SECONDS = 0.01
_PATIENCE = 10.0

_PROFILE = bench_profile(_K)

Ints = npt.NDArray[np.int64]


def measure(
    reports: Sequence[int] = REPORTS,
    devices: Sequence[int] = DEVICES,
    *,
    days: int = _DAYS,
    store: str = "sqlite",
    on_progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """The figures of ``peel bench answers``: one object per size; the first figures are those of most reports and about 10^4 devices."""
    sizes = {}
    for many in devices:
        for count in reports:
            sizes[f"r{count}_d{many}"] = _measure(store, count, many, days)
            on_progress(f"{count} reports of {many} devices")
    usual = min(devices, key=lambda many: abs(many - 10**4))
    largest = sizes[f"r{max(reports)}_d{usual}"]
    memory = {count: sizes[f"r{count}_d{usual}"]["askers_40_mb"] for count in reports}
    return {
        "store": store,
        "page_worst_ms": largest["page_worst_ms"],
        "askers_40_mb": memory[max(reports)],
        "askers_40_mb_smallest": memory[min(reports)],
        "bytes_per_report": largest["bytes_per_report"],
        "sizes": sizes,
    }


@dataclass(frozen=True)
class _Place:
    """A database: the path of a file, or the address of a server and the process id of its postmaster."""

    path: str = ""
    url: str = ""
    postmaster: int = 0

    def open(self) -> SqliteStore | PostgresArchive:
        return PostgresArchive(self.url) if self.url else SqliteStore(self.path)

    def tend(self, *statements: LiteralString) -> None:
        """Run what autovacuum and the checkpointer would do in the minutes after."""
        if self.url:
            with psycopg.connect(self.url, autocommit=True) as admin:
                for statement in statements:
                    admin.execute(statement)

    @property
    def asks(self) -> int:
        """The number of times that a round asks a question."""
        return 4 if self.postmaster else 1

    def server_seconds(self, sessions: int) -> float:
        """Return the CPU seconds of the server, once it has no more sessions than these; 0 for a file."""
        if not self.postmaster:
            return 0.0
        deadline = time.monotonic() + _PATIENCE
        while sum("[local]" in _title(pid) for pid in self._children()) > sessions:
            if time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL still has more than {sessions} sessions after {_PATIENCE:g} s")
            time.sleep(_SAMPLE_SECONDS)
        return sum(_cpu_seconds(self.postmaster, ended=True)) + sum(
            spent for pid in self._children() for spent in _cpu_seconds(pid, ended=False)
        )

    def server_mb(self) -> float:
        """Return the private memory of the server's processes; 0 for a file."""
        return sum(_private_mb(pid) for pid in (self._children() if self.postmaster else ()))

    def _children(self) -> list[int]:
        children = Path(f"/proc/{self.postmaster}/task/{self.postmaster}/children").read_text(encoding="ascii")
        return list(map(int, children.split()))


def _title(pid: int) -> str:
    """Return the title of a server's process, which names the client of a session; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _cpu_seconds(pid: int, *, ended: bool) -> Iterator[float]:
    """Yield the CPU seconds of a process, and those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return
    yield from (int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[11 : 15 if ended else 13])


def _private_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    found = status.partition("RssAnon:")[2].split()
    return int(found[0]) / 1024 if found else 0.0  # a process that ends has none


@contextmanager
def _database(store: str) -> Iterator[_Place]:
    """A new database, removed at the end."""
    with ExitStack() as stack:
        if store == "postgres":
            server = stack.enter_context(PostgresServer(shared_buffers="256MB", max_wal_size="4GB", autovacuum="off"))
            yield _Place(url=server.url, postmaster=server.pid)
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            yield _Place(path=str(Path(folder) / "answers.sqlite"))


def _log_bytes(devices: int) -> float:
    """Return the bytes of a report in the log: a segment of reports of devices in any order, ten a second."""
    chance, many = np.random.default_rng(3), 32_768
    received = 1_700_000_000_000 + np.arange(many) * 100 + chance.integers(0, 100, many)
    device, index = chance.integers(1, devices + 1, many), chance.integers(0, _K, many)
    records = _records(device, index, received // 300_000 * 300, chance.integers(0, 2, many))
    records["number"], records["received"] = chance.integers(1000, 1200, many), received
    records["body"] = chance.integers(-(2**31), 2**31, many)  # bits of a seal's tag, which do not compress
    records["marks"] |= chance.integers(0, 3, many).astype(np.uint8) << 1
    return len(seal(records)) / many


def _records(device: Ints, index: Ints, bucket: Ints, plus: Ints) -> Records:
    """Return accepted reports as records of the log."""
    records = np.zeros(len(device), RECORD)
    records["device"], records["index"], records["bucket"], records["marks"] = device, index, bucket, plus
    records["profile"], records["body"], records["verdict"] = _PROFILE.id, index, Verdict.ACCEPTED
    records["received"] = bucket * 1000
    return records


@dataclass(frozen=True)
class _Fleet:
    """A store that has had reports of devices until now."""

    store: Archive
    place: _Place
    devices: int
    first: int
    """Start of the first day, Unix seconds."""
    now: int
    """Noon of the last day."""


def _measure(store: str, reports: int, devices: int, days: int) -> dict[str, Any]:
    first = int(time.time() - days * DAY) // DAY * DAY
    with _database(store) as place:
        filled = alone(_fill, place, reports, devices, first, days)
        return filled | alone(_ask, place, devices, first, days)


def _fill(place: _Place, reports: int, devices: int, first: int, days: int) -> dict[str, Any]:
    began = time.process_time() + place.server_seconds(0)
    with closing(place.open()) as archive:
        _write(archive, place, reports, devices, first, days)
        place.tend("VACUUM ANALYZE", "CHECKPOINT")
        size = archive.size_bytes() / reports
    spent = time.process_time() + place.server_seconds(0) - began
    return {
        "bytes_per_report": round(size + _log_bytes(devices), 1),
        "fill_us_per_report": round(1e6 * spent / reports, 2),
    }


def _ask(place: _Place, devices: int, first: int, days: int) -> dict[str, Any]:
    with closing(place.open()) as archive:
        fleet = _Fleet(archive, place, devices, first, _noon(first, days))
        memory = _askers(fleet)
        spent = {name: _timed(fleet, question) for name, question in _questions(fleet)}
    page = {name: each for name, each in spent.items() if not name.startswith("api")}
    return {
        "page_worst_ms": max(page.values()),
        "api_worst_ms": max(spent.values()),
        "askers_40_mb": memory,
        "questions_ms": spent,
    }


def _noon(first: int, days: int) -> int:
    return first + days * DAY - DAY // 2


def _write(archive: Archive, place: _Place, reports: int, devices: int, first: int, days: int) -> None:
    """Write the sums of all buckets, a day per transaction, and build larger units; the last day is half over."""
    chance = np.random.default_rng(1)
    now, seconds = _noon(first, days), archive.bucket_seconds
    with ExitStack() as stack:
        stores = [stack.enter_context(closing(store)) for store in _stores(archive)]
        pool = stack.enter_context(ThreadPoolExecutor(len(stores)))  # a store waits for its server most of the time
        extents = [Extent(seconds)] * len(stores)
        for day in range(days):
            begin = first + day * DAY
            buckets = (min(begin + DAY, now) - begin) // seconds
            count = reports * buckets * seconds // (now - first)
            table = _reports(chance, count, devices, begin, buckets, seconds)
            parts = [table.at(table.device % len(stores) == partition) for partition in range(len(stores))]
            add_day = partial(_add_day, until=min(begin + DAY, now), now=now)
            extents = list(pool.map(add_day, stores, extents, parts))
            if (day + 1).bit_count() == 1:  # tables are twice as large as before
                place.tend("ANALYZE")


def _stores(archive: Archive) -> Iterator[Store]:
    if isinstance(archive, SqliteStore):
        yield SqliteStore(archive.path)
    elif isinstance(archive, PostgresArchive):
        for partition in range(archive.partitions):
            yield PostgresStore(archive.address.url.reveal().decode(), partition=partition)


def _add_day(store: Store, extent: Extent, table: RollupTable, until: int, now: int) -> Extent:
    with store.begin() as transaction:
        connection: Connection = transaction._connection  # type: ignore[attr-defined]
        tail = table.start >= now - _TAIL_SECONDS
        add_rollups(connection, extent, table.at(~tail))
        keys, sums = add_up([table.profile, table.start, table.index], [table.plus, table.minus])
        add_tallies(connection, extent, TallyTable(*keys, *sums, *(0 * each for each in sums)))
        extent = _built(connection, extent, min(until, now - _TAIL_SECONDS))
        events = _events(table.at(tail))
        if len(events["device"]):
            writer = LogWriter(connection, 0)
            writer.write(events)
            writer.flush()
        transaction._set_meta(  # type: ignore[attr-defined]
            {"built": extent.built, "generation": transaction.generation + 1, "arrival": len(events["device"])}
        )
    return extent


def _events(table: RollupTable) -> Columns:
    """Return events of a log with these sums."""
    counts = np.concatenate([table.plus, table.minus])
    rows = np.repeat(np.tile(np.arange(len(table)), 2), counts)
    plus = np.repeat(np.repeat([1, 0], len(table)), counts)
    order = np.random.default_rng(4).permutation(len(rows))
    rows, plus = rows[order], plus[order]
    return _columns(_records(table.device[rows], table.index[rows], table.start[rows], plus))


def _columns(records: Records) -> Columns:
    return {name: records[name] for name in records.dtype.names or ()}


def _reports(
    chance: np.random.Generator, count: int, devices: int, begin: int, buckets: int, seconds: int
) -> RollupTable:
    """Return reports at random as sums of buckets."""
    code, number = np.unique(chance.integers(0, buckets * devices * _K * 2, count), return_counts=True)
    plus, cell, device, bucket = code % 2, code // 2 % _K, code // (2 * _K) % devices, code // (2 * _K * devices)
    keys, sums = add_up([bucket, device, cell], [number * plus, number * (1 - plus)])
    none = np.zeros(len(keys[0]), np.int64)
    return RollupTable(none + _PROFILE.id, begin + keys[0] * seconds, keys[1] + 1, keys[2], none, *sums)


def _built(connection: Connection, extent: Extent, now: int) -> Extent:
    while (further := build(connection, extent, now)).built > extent.built:
        extent = further
    return further


def _questions(fleet: _Fleet) -> Iterator[tuple[str, EstimateQuestion]]:
    """Yield the questions of the page, those of the API after them."""
    whole = EstimateQuestion(_PROFILE, None, None, None, True, Choice())
    members = np.random.default_rng(2).permutation(fleet.devices) + 1
    tags = tuple(
        Tag(f"g{place}", frozenset(part.tolist())) for place, part in enumerate(np.array_split(members, _TAGS))
    )
    for name, seconds in {"hour": 3600, "6h": 6 * 3600, "day": DAY, "week": 7 * DAY, "month": 30 * DAY}.items():
        # A page begins in the middle of a unit.
        since = float(fleet.now - seconds - 1500)
        history = replace(whole, since=since, bucket_seconds=_bucket(seconds), choice=Choice(_PROFILE.label(0)))
        yield f"estimates_{name}", replace(whole, since=since)
        yield f"tag_{name}", replace(whole, since=since, tags=tags[:1])
        yield f"history_{name}", replace(history, devices=False)
        yield f"history_{name}_tag", replace(history, tags=tags[:1])
    every = replace(
        whole,
        since=float(fleet.first),
        bucket_seconds=_bucket(fleet.now - fleet.first),
        choice=Choice(_PROFILE.label(0)),
    )
    yield "estimates_all", whole
    yield "tag_all", replace(whole, tags=tags[:1])
    yield "history_all", replace(every, devices=False)
    yield "history_all_tag", replace(every, tags=tags[:1])
    yield "api_tags_day", replace(whole, since=float(fleet.now - DAY), tags=tags)
    yield "api_tags_all", replace(whole, tags=tags)
    yield "api_days_of_month", replace(whole, since=float(fleet.now - 30 * DAY), bucket_seconds=DAY)
    yield "api_hours_of_day", replace(whole, since=float(fleet.now - DAY), bucket_seconds=3600)


_SIZES = (300, 600, 900, 1800, 3600, 7200, 21_600, DAY, 4 * DAY, 16 * DAY, 64 * DAY)


def _bucket(seconds: int) -> int:
    """Return the bucket of the page's chart for a span of time: at most 48 points."""
    return next(size for size in _SIZES if seconds / size <= 48)


def _timed(fleet: _Fleet, question: EstimateQuestion) -> float:
    """Return CPU milliseconds of a question, the better of two rounds."""
    place, spent = fleet.place, []
    for _ in range(2):
        began = time.process_time() + place.server_seconds(1)
        for _ in range(place.asks):
            estimate_tables(fleet.store, question, _SHARE_CAP if question.devices else 1.0)
        passed = time.process_time() + place.server_seconds(1) - began
        spent.append(1e3 * passed / place.asks)
    return round(min(spent), 1)


def _askers(fleet: _Fleet) -> float:
    """Return the most memory in MB while as many threads ask different questions, as the gateway's server does."""
    cache: QueryCache[Any] = QueryCache(time.monotonic_ns, size=len, capacity=1)
    questions = [question for _, question in _questions(fleet)]

    def ask(place: int) -> None:
        question = questions[place % len(questions)]

        def find() -> Any:
            return estimate_tables(fleet.store, question, _SHARE_CAP if question.devices else 1.0)

        if question.devices:
            cache.get((place, question.key), find)
        else:
            find()

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(_ASKERS)]
    for thread in threads:
        thread.start()
    server = 0.0
    while any(thread.is_alive() for thread in threads):
        server = max(server, fleet.place.server_mb())
        time.sleep(_SAMPLE_SECONDS)
    return round(rss_mb(os.getpid()) + server, 1)
