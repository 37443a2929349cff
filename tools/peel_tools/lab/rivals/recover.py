# SPDX-License-Identifier: MIT
"""Recovery: frequencies put right without saying who was fake. LDPRecover (Sun et al. 2024) and normalisation (Cao et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peel_tools.lab.rivals.base import Collected, Floats, Frequencies, Judgement, Knowledge

__all__ = ["LdpRecover", "Normalised", "on_simplex"]


@dataclass(frozen=True)
class LdpRecover:
    """Subtract what fake devices are supposed to have added, and project on what frequencies can be.

    With eta fake devices per honest one, honest = (1 + eta) poisoned - eta fake. Fake reports that support one category each have estimates
    that sum to (1 - k q) / (p - q). Without targets that sum is spread over the categories whose poisoned estimate is positive.
    """

    knows_targets: bool
    supposed: float = 0.2
    """Eta where nobody supposes another; the paper's choice."""
    source: str = "Sun et al.: LDPRecover: Recovering Frequencies from Poisoning Attacks against Local Differential Privacy, ICDE 2024"
    departs: str = "none known"

    @property
    def name(self) -> str:
        return "LDPRecover, targets known" if self.knows_targets else "LDPRecover"

    @property
    def assumes(self) -> str:
        return f"the share of fake devices{'; the targets' if self.knows_targets else ''}"

    def judge(self, collected: Collected, known: Knowledge) -> Judgement | None:
        """Of frequencies only; it never says who."""
        if not isinstance(collected, Frequencies) or (self.knows_targets and known.targets is None):
            return None
        eta = self.supposed if known.ratio is None else known.ratio
        poisoned, categories = collected.estimate, collected.supports.shape[2]
        promoted = known.targets if self.knows_targets else np.flatnonzero(poisoned > 0)
        fake = np.zeros(categories)
        if promoted is not None and len(promoted):
            fake[promoted] = (1 - categories * collected.q) / (collected.p - collected.q) / len(promoted)
        return Judgement(estimate=on_simplex((1 + eta) * poisoned - eta * fake))


@dataclass(frozen=True)
class Normalised:
    """Shift the least frequency to zero and scale the sum to one: a promoted category keeps most of its gain."""

    name: str = "normalisation"
    source: str = "Cao, Jia, Gong 2021, section 7.1"
    assumes: str = ""
    departs: str = "none known"

    def judge(self, collected: Collected, known: Knowledge) -> Judgement | None:
        """Of frequencies only."""
        if not isinstance(collected, Frequencies):
            return None
        shifted = collected.estimate - collected.estimate.min()
        return Judgement(estimate=shifted / shifted.sum())


def on_simplex(values: Floats) -> Floats:
    """The nearest frequencies that are at least 0 and sum to 1, by least squares: float64[categories]."""
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    shift = excess[np.flatnonzero(ordered > excess)[-1]]
    return np.asarray(np.maximum(values - shift, 0.0))
