# SPDX-License-Identifier: MIT
"""The benchmarks behind the figures of the documents, in the order of their runs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

__all__ = ["BENCHMARKS", "Benchmark"]


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
