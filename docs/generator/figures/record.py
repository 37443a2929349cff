# SPDX-License-Identifier: MIT
"""docs/figures.json: what each benchmark printed last, where, when and at which load."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from docs.generator.blocks import BlockError
from docs.generator.figures.benchmarks import BENCHMARKS
from peel_gateway.files import write_atomically

__all__ = ["PATH", "Load", "Taken", "figures", "read", "taken", "write"]

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
