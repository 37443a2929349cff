# SPDX-License-Identifier: MIT
"""The CPU time of screening a report, from message to commit, compared with the least that any gateway has to do.

All ratios are taken within one run, batch by batch in turn, over the same reports, because machines are noisy and differ. A round has
more events than the log seals together, so that every round pays for sealing. The median of the rounds is printed. Checkpoints of the
e-processes are too rare for that: the cost of one is spread over the events between two.
"""

from __future__ import annotations

import functools
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, ParamSpec, TypeVar
from unittest import mock

import numpy as np

from peel_core import Keyring, Profile, open_joined
from peel_core.projection import matrix, reconstruction
from peel_gateway.engine import engine as engine_module
from peel_gateway.engine.engine import Engine
from peel_gateway.model.messages import MessageBatch
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening import layers, state_cache, statistics
from peel_gateway.screening.device_tests import TAIL
from peel_gateway.screening.state_cache import StateCache
from peel_gateway.storage.records import FIELDS, Records, records_of
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_research.bench.alone import alone
from peel_research.bench.workload import BATCH, Workload, bench_profile, mixed_profile, small_registry

__all__ = ["SIZES", "Size", "measure"]

ROUNDS = 5
ROUND_BATCHES = 17
_NAIVE_SECONDS = 0.5
_ROOM = 2**31
"""For what is known of all devices: with less (`screen.memory_bytes`) most of the time would go into reading that."""

Given = ParamSpec("Given")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Size:
    """The numbers of means and devices; k = None stands for the profile with attributes of all kinds."""

    k: int | None
    devices: int

    def __str__(self) -> str:
        return f"{f'k{self.k}' if self.k else f'mixed{len(self.profile.attributes)}'}_d{self.devices}"

    @property
    def profile(self) -> Profile:
        """The profile of all devices."""
        return bench_profile(self.k) if self.k else mixed_profile()


SIZES = tuple(Size(k, devices) for devices in (500, 20_000) for k in (16, None, 64, 252, 1024))


def measure(sizes: Sequence[Size] = SIZES, rounds: int = ROUNDS) -> dict[str, Any]:
    """The figures of ``peel bench engine``: an object per size, each from a process of its own."""
    return {str(size): alone(_measure, size, rounds) for size in sizes}


def _measure(size: Size, rounds: int) -> dict[str, Any]:
    workload = Workload(small_registry(size.profile, size.devices))
    with tempfile.TemporaryDirectory() as folder:
        bench = _Bench(workload, Path(folder))
        for _ in range(1 + workload.first_contacts):
            bench.play(_Round())
        done = [_Round() for _ in range(rounds)]
        for each in done:
            for _ in range(ROUND_BATCHES):
                bench.play(each)
        checkpoint = bench.checkpoint()
        bench.close()
    return _figures(done, _naive_seconds(workload)) | {"checkpoint_us": round(1e6 * checkpoint / TAIL, 2)}


class _Round:
    """CPU seconds of a round, by what they went into; `wall` are the clock's."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def timed(self, what: str, function: Callable[Given, Result]) -> Callable[Given, Result]:
        """The same function, on the clock."""

        @functools.wraps(function)
        def run(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            began = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[what] += time.process_time() - began

        return run

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Put the engine's stages on the clock, wherever they are called from."""
        parts: tuple[tuple[Any, str, str], ...] = (
            (engine_module, "open_joined", "open"),
            (engine_module, "front", "screen"),
            (engine_module, "speakers", "screen"),
            (engine_module, "listen", "screen"),
            (engine_module, "precheck", "screen"),
            (engine_module, "judge", "screen"),
            (StateCache, "apply", "screen"),
            (layers, "decode", "reconstruct"),
            (statistics, "judge_devices", "statistics"),
        )
        with ExitStack() as patches:
            for owner, name, what in parts:
                patches.enter_context(mock.patch.object(owner, name, self.timed(what, getattr(owner, name))))
            yield

    @property
    def stages(self) -> dict[str, float]:
        """Reconstruction and statistics are parts of screening; what is neither opening nor screening is the store's."""
        spent = self.seconds
        return {
            **{name: spent[name] for name in ("open", "reconstruct", "statistics")},
            "store": spent["engine"] - spent["open"] - spent["screen"],
            "rest": spent["screen"] - spent["reconstruct"] - spent["statistics"],
        }


def _figures(rounds: Sequence[_Round], naive: float) -> dict[str, Any]:
    reports = ROUND_BATCHES * BATCH
    spent, stages = [each.seconds for each in rounds], [each.stages for each in rounds]

    def micros(table: Sequence[dict[str, float]], what: str) -> float:
        return round(median(1e6 * each[what] / reports for each in table), 2)

    return {
        "cpu_us_per_report": micros(spent, "engine"),
        "stages_us": {name: micros(stages, name) for name in stages[0]},
        "floor_us": micros(spent, "floor"),
        "ratio_vs_floor": round(median(each["engine"] / each["floor"] for each in spent), 2),
        "gemm_fraction": round(median(each["product"] / each["reconstruct"] for each in spent), 2),
        "ratio_vs_naive": round(median(1 + naive * reports / each["engine"] for each in spent)),
        "reports_per_s": round(median(reports / each["wall"] for each in spent)),
    }


class _Bench:
    """An engine on a database of its own; beside it the floor on another, and the bare product."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        self._workload = workload
        self._keyring = workload.registry.keyring
        self._gamma = reconstruction(workload.profile.seed, workload.profile.width)
        self._store = SqliteStore(folder / "engine.sqlite")
        self._engine = Engine(self._store, cache_bytes=_ROOM)
        self._engine.load(workload.registry)
        self._floor = _Floor(folder / "floor.sqlite", self._keyring)

    def play(self, into: _Round) -> None:
        """One batch through the engine, onto the floor, and through the product."""
        messages = self._workload.batch()
        began = time.perf_counter()
        with into.watching():
            into.timed("engine", self._engine.process)(messages)
        into.seconds["wall"] += time.perf_counter() - began
        into.timed("floor", self._floor.append)(messages, self._logged(len(messages)))
        trits = open_joined(self._keyring, messages.payloads, messages.payload_ends).trits
        into.timed("product", np.matmul)(trits, self._gamma.T)

    def checkpoint(self) -> float:
        """CPU seconds by which a batch is dearer when the states of all bets are stored before it."""
        usual, dear = _Round(), _Round()
        usual.timed("engine", self._engine.process)(self._workload.batch())
        with mock.patch.object(state_cache, "TAIL", 0):
            dear.timed("engine", self._engine.process)(self._workload.batch())
        return max(0.0, dear.seconds["engine"] - usual.seconds["engine"])

    def _logged(self, count: int) -> Records:
        """Return the log records that the engine has just written. All must have been accepted."""
        with self._store.begin() as transaction:
            log, gaps = transaction.events(transaction.arrival - count)
        if len(gaps) or np.any(log.verdict != Verdict.ACCEPTED):
            raise RuntimeError("an honest report was not accepted: that is not what is to be measured")
        return records_of(log, gaps)

    def close(self) -> None:
        self._store.close()
        self._floor.close()


class _Floor:
    """The least work of any gateway: open the reports, append a row for each to a table, and commit."""

    def __init__(self, path: Path, keyring: Keyring) -> None:
        self._keyring = keyring
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        columns = ", ".join(f'"{name}" INTEGER' for name in FIELDS)
        self._connection.execute(f"CREATE TABLE log (arrival INTEGER PRIMARY KEY, {columns})")
        self._insert = f"INSERT INTO log VALUES (NULL, {', '.join('?' * len(FIELDS))})"

    def append(self, messages: MessageBatch, records: Records) -> None:
        open_joined(self._keyring, messages.payloads, messages.payload_ends)
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(self._insert, records.tolist())
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


def _naive_seconds(workload: Workload) -> float:
    """Return the CPU seconds per report of inverting the projection for each one: the pseudoinverse, then its product with the trits."""
    phi = matrix(workload.profile.seed, workload.profile.width).astype(np.float64)
    messages, keyring = workload.batch(), workload.registry.keyring
    trits = open_joined(keyring, messages.payloads, messages.payload_ends).trits
    began, reports = time.process_time(), 0
    while reports == 0 or (reports < len(trits) and time.process_time() - began < _NAIVE_SECONDS):
        np.argmax(np.abs(np.linalg.pinv(phi) @ trits[reports]))
        reports += 1
    return (time.process_time() - began) / reports
