# SPDX-License-Identifier: MIT
"""The targets of the benchmarks, and which of them are missed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from docs.generator.figures.record import figures, taken
from docs.generator.figures.words import Wanted, paragraph, rounded, table, under_load

__all__ = ["TARGETS", "Target", "target_table", "targets_sentence"]

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Target:
    """One value of a benchmark with its bound."""

    benchmark: str
    what: str
    value: Callable[[Figures], float]
    wanted: Wanted
    unit: str = ""
    """The text after the number, with its space."""
    exact: bool = False
    """Whether to print every digit: sizes and cycles are the same in every run."""
    digits: int = 3

    @property
    def measured(self) -> float:
        return self.value(figures(self.benchmark))

    @property
    def missed(self) -> bool:
        return self.wanted.miss(self.measured) > 0

    def row(self) -> list[str]:
        """Return the cells: name, measured, wanted, verdict."""
        return [self.what, self._text(self.measured), self.bound, self.wanted.verdict(self.measured)]

    @property
    def bound(self) -> str:
        return f"at {'least' if self.wanted.at_least else 'most'} {self.wanted.bound:,.12g}{self.unit}"

    def sentence(self) -> str:
        """Return the sentence for a missed target."""
        _, measured, wanted, verdict = self.row()
        load = ", under load" if under_load(taken(self.benchmark)) else ""
        return f"`{self.benchmark}`, {self.what} ({measured}, {wanted} wanted: {verdict}{load})"

    def _text(self, value: float) -> str:
        return f"{value:,}{self.unit}" if self.exact else f"{rounded(value, self.digits)}{self.unit}"


def _at_most(bound: float) -> Wanted:
    return Wanted(bound)


def _at_least(bound: float) -> Wanted:
    return Wanted(bound, at_least=True)


def _kept(axis: str, what: str) -> Target:
    return Target(
        "growth",
        f"throughput kept, {what}",
        lambda run: float(run[axis]["largest_over_smallest"]),
        _at_least(0.5),
        digits=2,
    )


def _beside(task: str, step: str) -> Target:
    return Target(
        "peers",
        f"{task}, {step}, bare, beside the fastest other",
        lambda run: float(run[{"kRR": "krr", "hashing": "hashing"}[task]]["ratio"]["bare"][f"{step}_per_s"]),
        _at_least(5),
        " times",
    )


def _core(what: str, field: str, bound: int, unit: str) -> Target:
    return Target("core", what, lambda run: int(run[field]), _at_most(bound), unit, exact=True)


def _cycles(what: str, size: str, bound: int) -> Target:
    return Target("device", what, lambda run: int(run[size]["cycles"]), _at_most(bound), " cycles", exact=True)


def _floor(k: int, bound: float) -> Target:
    what = f"k = {k}, 500 devices, over the floor"
    return Target("engine", what, lambda run: float(run[f"k{k}_d500"]["ratio_vs_floor"]), _at_most(bound), " times")


def _written(rate: int, bound: float) -> Target:
    what = f"written per report at {rate:,} reports/s"
    return Target(
        "disk", what, lambda run: float(run[f"r{rate}"]["written_bytes_per_report"]), _at_most(bound), " bytes"
    )


def _most_stack(run: Figures) -> int:
    return max(int(run[size]["stack_bytes"]) for size in ("k16", "k64", "k252", "hashing"))


def _least_over_product(run: Figures) -> float:
    return min(float(size["gemm_fraction"]) for size in run.values())


def _most_stored(run: Figures) -> float:
    return max(float(run[rate]["stored_bytes_per_report"]) for rate in ("r1", "r10", "r1000"))


TARGETS = (
    _core("frame, k = 252", "frame_bits", 632, " bits"),
    Target(
        "core",
        "encode and seal, k = 252, one core",
        lambda run: run["ns_per_report"] / 1000,
        _at_most(2),
        " µs of CPU time",
    ),
    _core("Cortex-M0+, GCC -Os, code that a device links", "text_bytes_armv6m", 6144, " bytes"),
    _core("stack below `peel_encode`", "stack_bytes_armv6m", 640, " bytes"),
    _cycles("k = 16, width 48", "k16", 18_000),
    _cycles("k = 252, width 252", "k252", 35_000),
    _cycles("hashing, 65,535 categories into 3, width 48", "hashing", 18_000),
    Target("device", "stack, the largest of all", _most_stack, _at_most(512), " bytes", exact=True),
    Target(
        "device", "native module, armv6m", lambda run: run["mpy_bytes_armv6m"], _at_most(12_288), " bytes", exact=True
    ),
    _floor(16, 3),
    _floor(252, 4),
    Target(
        "engine",
        "reconstruction against the product, the smallest ratio",
        _least_over_product,
        _at_least(1),
        " times as fast",
    ),
    Target(
        "ingest",
        "against a bare paho subscriber",
        lambda run: run["ratio_vs_bare_paho"],
        _at_least(5),
        " times as many",
    ),
    Target(
        "ingest",
        "against a bare gmqtt subscriber",
        lambda run: run["ratio_vs_bare_gmqtt"],
        _at_least(1.3),
        " times as many",
    ),
    Target(
        "ingest", "32 frames per message", lambda run: run["batched_reports_per_s"], _at_least(100_000), " reports/s"
    ),
    _written(10, 4000),
    _written(1000, 400),
    Target("disk", "stored per report, the largest of all rates", _most_stored, _at_most(50), " bytes"),
    _kept("registered", "registered devices"),
    _kept("speaking", "active devices"),
    _kept("log_rows", "reports in the log"),
    _kept("exposures", "exposures held"),
    _kept("page", "an open page"),
    Target(
        "growth", "start-up with a million registered devices", lambda run: run["start"]["start_s"], _at_most(20), " s"
    ),
    Target("growth", "memory with them, at its peak", lambda run: run["start"]["rss_peak_mb"], _at_most(600), " MB"),
    _beside("kRR", "encode"),
    _beside("kRR", "aggregate"),
    _beside("hashing", "encode"),
    _beside("hashing", "aggregate"),
)


def target_table(benchmark: str) -> str:
    """Return a benchmark's targets as a table."""
    rows = [target.row() for target in TARGETS if target.benchmark == benchmark]
    return table(["", "measured", "wanted", ""], rows)


def targets_sentence() -> str:
    """Return how many targets are met, and by how much the others are missed."""
    missed = [target for target in TARGETS if target.missed]
    if not missed:
        return paragraph(f"All {len(TARGETS)} targets are met.")
    names = "; ".join(target.sentence() for target in missed)
    return paragraph(f"{len(TARGETS) - len(missed)} of {len(TARGETS)} targets are met. Missed: {names}.")
