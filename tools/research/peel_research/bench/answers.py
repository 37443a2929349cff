# SPDX-License-Identifier: MIT
"""The costs of answers: CPU time and memory of the questions of page and API, by reports and devices.

Each size has a process and a database to itself. No report passes through the engine: the sums of every bucket are written with the store's
own functions, and larger units are built from them as in a gateway. So a size of 10^8 reports takes minutes instead of hours. The log
stays empty. Its bytes per report, as of one compressed segment, are added to `bytes_per_report`.

Reports are spread evenly over 90 days, 16 attributes and all devices; there are ten tags. Times are CPU time, without the cache of
answers. `page_worst_ms` is the slowest question of the page, `api_worst_ms` that of all.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from peel_gateway.estimation.estimate import Choice
from peel_gateway.model.grouping import add_up
from peel_gateway.model.tables import RollupTable, TallyTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.queries.cache import QueryCache
from peel_gateway.queries.estimates import EstimateQuestion, Tag, estimate_tables
from peel_gateway.storage.records import RECORD, seal
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.rollups import DAY, Extent, add_rollups, add_tallies, build
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_research.bench.alone import alone
from peel_research.bench.workload import bench_profile

__all__ = ["DEVICES", "REPORTS", "measure"]

REPORTS, DEVICES = (10**5, 10**6, 10**7, 10**8), (10**2, 10**4, 10**5)
_K, _DAYS, _TAGS = 16, 90, 10
_ASKERS = 40
_SHARE_CAP = 0.1

_PROFILE = bench_profile(_K)


def measure(
    reports: Sequence[int] = REPORTS,
    devices: Sequence[int] = DEVICES,
    *,
    days: int = _DAYS,
    on_progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """The figures of ``peel bench answers``: one object per size; the first figures are those of most reports and about 10^4 devices."""
    sizes = {}
    for many in devices:
        for count in reports:
            sizes[f"r{count}_d{many}"] = alone(_measure, count, many, days)
            on_progress(f"{count} reports of {many} devices")
    usual = min(devices, key=lambda many: abs(many - 10**4))
    largest = sizes[f"r{max(reports)}_d{usual}"]
    memory = {count: sizes[f"r{count}_d{usual}"]["askers_40_mb"] for count in reports}
    return {
        "page_worst_ms": largest["page_worst_ms"],
        "askers_40_mb": memory[max(reports)],
        "askers_40_mb_smallest": memory[min(reports)],
        "bytes_per_report": largest["bytes_per_report"],
        "sizes": sizes,
    }


def _log_bytes(devices: int) -> float:
    """Return the bytes of a report in the log: a segment of reports of devices in any order, ten a second."""
    chance, many = np.random.default_rng(3), 32_768
    records = np.zeros(many, RECORD)
    records["device"], records["index"] = chance.integers(1, devices + 1, many), chance.integers(0, _K, many)
    records["number"] = chance.integers(1000, 1200, many)
    records["received"] = 1_700_000_000_000 + np.arange(many) * 100 + chance.integers(0, 100, many)
    records["bucket"] = records["received"] // 300_000 * 300
    records["profile"], records["body"], records["verdict"] = _PROFILE.id, records["index"], Verdict.ACCEPTED
    records["marks"] = chance.integers(0, 2, many) | chance.integers(0, 3, many) << 1
    return len(seal(records)) / many


@dataclass(frozen=True)
class _Fleet:
    """A store that has had reports of devices until now."""

    store: SqliteStore
    devices: int
    first: int
    """Start of the first day, Unix seconds."""
    now: int


def _measure(reports: int, devices: int, days: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "answers.sqlite")
        began = time.process_time()
        fleet = _filled(store, reports, devices, days)
        filled = time.process_time() - began
        spent = {name: _timed(fleet, question) for name, question in _questions(fleet)}
        page = {name: each for name, each in spent.items() if not name.startswith("api")}
        memory = _askers(fleet)
        size = store.size_bytes() / reports
        store.close()
    return {
        "page_worst_ms": max(page.values()),
        "api_worst_ms": max(spent.values()),
        "askers_40_mb": memory,
        "bytes_per_report": round(size + _log_bytes(devices), 1),
        "fill_us_per_report": round(1e6 * filled / reports, 2),
        "questions_ms": spent,
    }


def _filled(store: SqliteStore, reports: int, devices: int, days: int) -> _Fleet:
    """Write the sums of all buckets, a day per transaction, and build larger units; the last day is half over."""
    first = int(time.time() - days * DAY) // DAY * DAY
    chance = np.random.default_rng(1)
    extent = Extent(store.bucket_seconds)
    now = first + days * DAY - DAY // 2
    for day in range(days):
        begin = first + day * DAY
        buckets = (min(begin + DAY, now) - begin) // extent.bucket_seconds
        count = reports * buckets * extent.bucket_seconds // (now - first)
        with store.begin() as transaction:
            connection: Connection = transaction._connection  # type: ignore[attr-defined]
            table = _reports(chance, count, devices, begin, buckets, extent.bucket_seconds)
            add_rollups(connection, extent, table)
            keys, sums = add_up([table.profile, table.start, table.index], [table.plus, table.minus])
            add_tallies(connection, extent, TallyTable(*keys, *sums, *(0 * each for each in sums)))
            extent = _built(connection, extent, min(begin + DAY, now - 600))
            transaction._set_meta({"built": extent.built, "generation": day + 1})  # type: ignore[attr-defined]
    return _Fleet(store, devices, first, now)


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
    """Return CPU milliseconds of a question, the better of two."""
    spent = []
    for _ in range(2):
        began = time.process_time()
        estimate_tables(fleet.store, question, _SHARE_CAP if question.devices else 1.0)
        spent.append(1e3 * (time.process_time() - began))
    return round(min(spent), 1)


def _askers(fleet: _Fleet) -> float:
    """Return the most memory in MB while as many threads ask different questions through the cache, as the gateway's server does."""
    cache: QueryCache[Any] = QueryCache(time.monotonic_ns, size=len, capacity=1)
    questions = [question for _, question in _questions(fleet)]

    def ask(place: int) -> None:
        question = questions[place % len(questions)]
        cache.get((place, question.key), lambda: estimate_tables(fleet.store, question, 1.0))

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(_ASKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status = Path(f"/proc/{os.getpid()}/status").read_text(encoding="ascii")
    return round(int(status.partition("VmHWM:")[2].split()[0]) / 1024, 1)
