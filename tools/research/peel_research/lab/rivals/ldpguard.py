# SPDX-License-Identifier: MIT
"""LDPGuard: how often devices repeat themselves over two rounds says how many are fake (Huang et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peel_research.lab.rivals.base import Collected, Floats, Frequencies, Ints, Judgement, Knowledge

__all__ = ["LdpGuard"]


@dataclass(frozen=True)
class LdpGuard:
    """Each device reports twice with half the budget. An honest one repeats itself with a known probability P1; a fake one with P2,
    which follows from the attack that is supposed: one of the targets (1/r) if they are known, any category (1/k) if not.

    beta = (P1 - repeated share) / (P1 - P2) is unbiased if the supposed attack is the real one. With budget 1/2 per round P1 is hardly more
    than 1/k, so without targets it is the ratio of two small numbers: unbiased, and useless below a few million devices.
    """

    knows_targets: bool
    source: str = (
        "Huang et al.: LDPGuard: Defenses against Data Poisoning Attacks to LDP Protocols, IEEE TKDE 36(7), 2024"
    )
    departs: str = (
        "kRR only, and of the attacks that it supposes random reports and targets; removes the expected counts of fake reports instead of "
        "a random sample of them; every run counts, where its published experiments repeat those whose estimate is below 0 or above 1 "
        "(above 0.1, if fake reports are supposed to be random)"
    )

    @property
    def name(self) -> str:
        return "LDPGuard, targets known" if self.knows_targets else "LDPGuard"

    @property
    def assumes(self) -> str:
        kind = "the targets" if self.knows_targets else "that fake devices report any category at random"
        return f"the same reading in two rounds; {kind}"

    def judge(self, collected: Collected, known: Knowledge) -> Judgement | None:
        """Without two rounds of kRR, or without the targets where it is to know them, it does not apply."""
        if not isinstance(collected, Frequencies) or not collected.single or collected.rounds < 2:
            return None
        if self.knows_targets and known.targets is None:
            return None
        categories = collected.supports.shape[2]
        targets = known.targets if self.knows_targets and known.targets is not None else np.arange(categories)
        honest = collected.p**2 + (categories - 1) * collected.q**2
        fake = 1 / len(targets)
        repeated = float((collected.supports[:, 0] & collected.supports[:, 1]).any(axis=1).mean())
        ratio = (honest - repeated) / (honest - fake)
        return Judgement(ratio=ratio, estimate=_without(collected, min(max(ratio, 0.0), 1.0), targets))


def _without(collected: Frequencies, ratio: float, targets: Ints) -> Floats:
    """Frequencies after this share of the reports has been taken from the targets, as far as they have as many."""
    devices, rounds, categories = collected.supports.shape
    counts = collected.supports.sum(axis=(0, 1)).astype(np.float64)
    taken = np.zeros(categories)
    taken[targets] = np.minimum(ratio * devices * rounds / len(targets), counts[targets])
    left = counts - taken
    share = left / left.sum() if left.any() else np.full(categories, 1 / categories)
    return np.asarray((share - collected.q) / (collected.p - collected.q))
