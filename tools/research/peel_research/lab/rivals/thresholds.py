# SPDX-License-Identifier: MIT
"""An expert's thresholds, fixed beforehand, and no defence at all."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from peel_research.lab.rivals.base import Bools, Collected, Frequencies, Judgement, Knowledge, Numbers

__all__ = ["Expert", "NoDefence"]


@dataclass(frozen=True)
class Expert:
    """Thresholds of an expert who knows the mechanism but not the data.

    For noise: one false alarm in twenty devices. For counts: three standard deviations. The paper's expert is a panel of people and a
    language model who saw aggregates, which cannot be repeated.
    """

    strictness: float = 3.0
    name: str = "expert"
    source: str = "fixed thresholds of our own, in place of the paper's panel"
    assumes: str = ""
    departs: str = "entirely: rules in place of people"

    def judge(self, collected: Collected, known: Knowledge) -> Judgement | None:
        """Any device one of whose reports, or whose most frequent category, is beyond the threshold."""
        flags = self._numbers(collected) if isinstance(collected, Numbers) else self._frequencies(collected)
        kept = collected.of(~flags)
        return Judgement(float(flags.mean()), flags, kept.estimate if flags.sum() < len(flags) else None)

    def _numbers(self, collected: Numbers) -> Bools:
        """A report so far outside the range of readings that honest noise takes one device in e^3 = 20 there, over all rounds."""
        limit = 1 + (self.strictness + log(collected.rounds)) * collected.scale
        return np.asarray((np.abs(collected.values) > limit).any(axis=1))

    def _frequencies(self, collected: Frequencies) -> Bools:
        """A category that one device supports more often than its own would be."""
        rounds, p = collected.rounds, collected.p
        most = collected.supports.sum(axis=1).max(axis=1)
        return np.asarray(most > rounds * p + self.strictness * sqrt(rounds * p * (1 - p)))


@dataclass(frozen=True)
class NoDefence:
    """Whatever is reported counts."""

    name: str = "no defence"
    source: str = ""
    assumes: str = ""
    departs: str = ""

    def judge(self, collected: Collected, known: Knowledge) -> Judgement | None:
        devices = len(collected.supports if isinstance(collected, Frequencies) else collected.values)
        return Judgement(0.0, np.zeros(devices, np.bool_), collected.estimate)
