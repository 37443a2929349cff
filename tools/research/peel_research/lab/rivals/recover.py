# SPDX-License-Identifier: MIT
"""Recovery: frequencies put right without saying who was fake. LDPRecover (Sun et al. 2024) and normalisation (Cao et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peel_research.lab.rivals.base import Collected, Floats, Frequencies, Ints, Judgement, Knowledge

__all__ = ["LdpRecover", "Normalised", "on_simplex"]


@dataclass(frozen=True)
class LdpRecover:
    """Subtract what fake devices are supposed to have added, and project on what frequencies can be.

    With eta fake devices per honest one, honest = (1 + eta) poisoned - eta fake. Without targets, fake reports are supposed to support one
    category each, so that their estimates sum to (1 - k q) / (p - q), spread over the categories whose poisoned estimate is positive. With
    targets, to be those of a maximal gain attack.
    """

    knows_targets: bool
    supposed: float = 0.2
    """Eta where nobody supposes another; the paper's choice."""
    source: str = "Sun et al.: LDPRecover: Recovering Frequencies from Poisoning Attacks against Local Differential Privacy, ICDE 2024"
    departs: str = (
        "told the true share of fake devices, where its paper supposes one for five honest ones whatever is true; with targets it is told "
        "what the attack adds on average, which is more than its paper takes for granted"
    )

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
        poisoned = collected.estimate
        targets = known.targets if self.knows_targets else None
        fake = _spread_evenly(collected) if targets is None else _promoted(collected, targets)
        return Judgement(estimate=on_simplex((1 + eta) * poisoned - eta * fake))


def _spread_evenly(collected: Frequencies) -> Floats:
    """Estimates that fake reports alone would give, without any idea of their targets."""
    categories = collected.supports.shape[2]
    positive = np.flatnonzero(collected.estimate > 0)
    fake = np.zeros(categories)
    fake[positive] = (1 - categories * collected.q) / (collected.p - collected.q) / len(positive)
    return fake


def _promoted(collected: Frequencies, targets: Ints) -> Floats:
    """Estimates that a maximal gain attack alone would give: one of the targets, or all of them and others up to the usual number."""
    categories, p, q = collected.supports.shape[2], collected.p, collected.q
    one = collected.single
    rest = 0.0 if one else max(p + (categories - 1) * q - len(targets), 0.0) / (categories - len(targets))
    supported = np.full(categories, rest)
    supported[targets] = 1 / len(targets) if one else 1.0
    return np.asarray((supported - q) / (p - q))


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
