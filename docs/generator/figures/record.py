# SPDX-License-Identifier: MIT
"""docs/figures.json: the benchmarks behind the figures of the documents, and what each printed last, where, when and at which load."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from docs.generator.blocks import BlockError
from peel_gateway.files import write_atomically

__all__ = ["BENCHMARKS", "PATH", "Benchmark", "Load", "Taken", "figures", "read", "taken", "write"]


@dataclass(frozen=True)
class Benchmark:
    """A run of `peel bench`."""

    name: str
    words: tuple[str, ...]
    """The arguments of `peel bench`, without `--json`."""
    seconds: int
    """Approximate duration on two quiet cores."""
    patience: float
    """Timeout in seconds: far more than a busy machine needs, even to build firmware first."""

    @property
    def command(self) -> str:
        """Return the command that measures these figures."""
        return shlex.join(["peel", "bench", *self.words, "--json"])


def _benchmark(name: str, command: str, seconds: int) -> Benchmark:
    return Benchmark(name, tuple(command.split()), seconds, patience=max(900, 6 * seconds))


BENCHMARKS = {
    each.name: each
    for each in (
        _benchmark("core", "core", 2),
        _benchmark("ingest", "ingest", 25),
        _benchmark("ingest_nats", "ingest --broker nats", 30),
        _benchmark("engine", "engine --rounds 5", 110),
        _benchmark("gateway", "gateway", 15),
        _benchmark("growth", "growth", 200),
        _benchmark("peers", "peers", 60),
        _benchmark("scale", "scale", 120),
        _benchmark("disk", "disk --seconds 60", 195),
        _benchmark("disk_10s", "disk --seconds 60 --batch-seconds 10", 220),
        _benchmark("receipts", "receipts", 5),
        _benchmark("privacy_1_60", "privacy --epsilon 1 --interval 60", 15),
        _benchmark("privacy_1_900", "privacy --epsilon 1 --interval 900", 4),
        _benchmark("privacy_1_21600", "privacy --epsilon 1 --interval 21600", 3),
        _benchmark("privacy_0.1_900", "privacy --epsilon 0.1 --interval 900", 4),
        _benchmark("device", "device", 50),
    )
}


PATH = Path(__file__).resolve().parents[2] / "figures.json"


@dataclass(frozen=True)
class Load:
    """The machine's load by other processes.

    `before` and `after` are counts of `peel_research.bench.machine.load`, the averages are the kernel's of the last minute.
    """

    before: float
    after: float
    average_before: float
    average_after: float


@dataclass(frozen=True)
class Taken:
    """One run of a benchmark."""

    command: str
    date: str
    seconds: float
    version: str
    commit: str
    changed: bool
    """Whether the checkout differed from its commit, documents aside."""
    compiler: str | None
    """The version of arm-none-eabi-gcc, on which bytes and cycles depend."""
    machine: Mapping[str, Any]
    load: Load
    figures: Mapping[str, Any]


def read(path: Path | None = None) -> dict[str, Taken]:
    """Return the runs in a file (docs/figures.json by default) by benchmark; empty without a file."""
    path = path or PATH
    if not path.exists():
        return {}
    kept = json.loads(path.read_text(encoding="utf-8"))
    return {name: Taken(**{**run, "load": Load(**run["load"])}) for name, run in kept.items()}


def write(runs: Mapping[str, Taken], path: Path) -> None:
    """Replace the file, without runs of benchmarks that no longer exist."""
    kept = {name: asdict(runs[name]) for name in BENCHMARKS if name in runs}
    write_atomically(path, json.dumps(kept, indent=1, ensure_ascii=False) + "\n", mode=0o644)


def taken(name: str) -> Taken:
    """Return a benchmark's run from the file."""
    runs = read()
    if name not in runs:
        raise BlockError(f"docs/figures.json has no {name}: run scripts/figures --only {name}")
    return runs[name]


def figures(name: str) -> Mapping[str, Any]:
    """Return the output of a benchmark."""
    return taken(name).figures
