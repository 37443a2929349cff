# SPDX-License-Identifier: MIT
"""The best play of an insider against verified coins (SPEC.md, section 13), by exact dynamic programming.

An insider may forge a table, so that its report shows the wanted symbol. The audit of the batch finds a forged table with probability
`audits / batch`. Then the device stalls or is exposed, and nothing later counts. The insider may also keep back one challenged group
after it has seen the outcomes, and nothing later counts either. Everything that counted before stays: figures were read meanwhile.

Harm is in units of a liar's harm per report, as in `peel_tools.planning.arena`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "HARMONY",
    "HASHING",
    "KRR",
    "SILENT",
    "SUPPRESSION",
    "Coin",
    "Policy",
    "figures",
    "harm",
    "malformed_by_change",
    "over_devices",
    "pausing",
]

SILENT = -1
"""In a policy: send nothing more."""


@dataclass(frozen=True)
class Policy:
    """The best play in a mean over devices. Arrays are by counted reports, then by how many of them show the wanted symbol."""

    harm: float
    """Its expected harm over a liar's."""
    plan: dict[int, npt.NDArray[np.int64]]
    """The tables to forge for the next group, or `SILENT`."""
    worth: dict[int, npt.NDArray[np.float64]]
    """The expected harm from here on, all that counted included."""
    silent: dict[int, npt.NDArray[np.float64]]
    """The harm if nothing more counts."""

    @property
    def forges(self) -> bool:
        """Whether it ever forges a table."""
        return any((tables > 0).any() for tables in self.plan.values())


BATCH = 32
AUDITS = 8
MORE_AUDITS = 16
"""Of a profile with a coin whose cap is above 3."""
LENGTHS = (1, 5, 20, 100)


@dataclass(frozen=True)
class Coin:
    """A verified coin, and the harm of one report under it.

    `neutral` is the wanted symbol's rate among devices without a lie: a liar raises it to keep / K, a forged table to 1.
    """

    keep: int
    change: int
    symbols: int
    neutral: Fraction
    audits: int = AUDITS

    @property
    def entries(self) -> int:
        """K, the entries of a table."""
        return self.keep + (self.symbols - 1) * self.change

    @property
    def wanted(self) -> Fraction:
        """Probability that a fair table shows the symbol of a liar."""
        return Fraction(self.keep, self.entries)

    @property
    def gain(self) -> Fraction:
        """Harm of a report that shows the wanted symbol: the cap."""
        return (1 - self.neutral) / (self.wanted - self.neutral)

    @property
    def loss(self) -> Fraction:
        """Harm, below 0, of a report that shows another symbol."""
        return -self.neutral / (self.wanted - self.neutral)

    @property
    def unaudited(self) -> Fraction:
        """Probability that one forged table of a batch is not audited."""
        return 1 - Fraction(self.audits, BATCH)


# The odds of epsilon 1 (SPEC.md, section 5): 8 : 3 for 2, 3 and 16 symbols.
HARMONY = Coin(8, 3, 2, Fraction(1, 2))
HASHING = Coin(8, 3, 3, Fraction(1, 3))
"""A hash maps another category to the wanted symbol with probability 1/g."""
KRR = Coin(8, 3, 16, Fraction(3, 53), MORE_AUDITS)
"""Devices with another category say the wanted one with probability change / K."""
SUPPRESSION = Coin(11, 3, 2, Fraction(2, 3))
"""`HASHING` for an insider who wants any symbol but that of one category: two of three symbols are wanted."""


def harm(coin: Coin, reports: int, group: int = 1) -> Fraction:
    """Return the best expected harm per report over a liar's, for so many reports in challenge groups of `group` reports.

    Each report has its number in a batch of its own: several forged tables in one batch are found with a higher probability.
    Reports that never count do no harm.
    """

    later = Fraction(0)
    for size in [size for size in (reports % group,) if size] + [group] * (reports // group):  # from the last group on
        later = max(_group(coin, size, forged, later) for forged in range(size + 1))
    return later / reports


def _group(coin: Coin, size: int, forged: int, later: Fraction) -> Fraction:
    """Return the expected harm from a group on: it counts and is followed by `later`, or it is kept back and nothing follows."""
    shown = (max(value + forged * coin.gain + later, Fraction(0)) * p for value, p in _fair(coin, size - forged))
    return coin.unaudited**forged * sum(shown, Fraction(0))


def _fair(coin: Coin, reports: int) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield the sums of fair reports on a lie, with their probabilities."""
    for wanted in range(reports + 1):
        others = reports - wanted
        chance = comb(reports, wanted) * coin.wanted**wanted * (1 - coin.wanted) ** others
        yield wanted * coin.gain + others * coin.loss, chance


def pausing(coin: Coin, reports: int, group: int, *, full: int, keep_back: bool = False, forge: bool = False) -> Policy:
    """Return the best play in a mean over devices of an insider who may fall silent after any group.

    A device with n reports counts like min(n, full) / full; with `full` = 1 each device counts once. The liar that he is compared with
    sends all reports. With `keep_back` he may also keep back the last challenged group, with `forge` he forges tables, one per batch.
    """
    ends = [*range(0, reports, group), reports]
    liar = min(reports, full) / full
    best = Policy(0.0, {}, {}, {})
    for at, counted in reversed(list(enumerate(ends))):
        wanted = np.arange(counted + 1)
        silent = (wanted * float(coin.gain) + (counted - wanted) * float(coin.loss)) / max(counted, full) / liar
        worth, plan = silent.copy(), np.full(counted + 1, SILENT)
        more = ends[at + 1] - counted if counted < reports else 0
        for forged in range(more + 1 if forge else 1) if more else ():
            passed = float(coin.unaudited) ** forged
            value = (1 - passed) * silent
            for shown, (_, chance) in enumerate(_fair(coin, more - forged)):
                then = best.worth[counted + more][wanted + shown + forged]
                value += passed * float(chance) * (np.maximum(then, silent) if keep_back else then)
            better = value > worth + 1e-12
            worth, plan = np.where(better, value, worth), np.where(better, forged, plan)
        best.plan[counted], best.worth[counted], best.silent[counted] = plan, worth, silent
    return replace(best, harm=float(best.worth[0][0]))


def over_devices() -> dict[str, float]:
    """Return the figures about means over devices. Each device has 60 reports about the target, in time buckets of 5.

    An insider who may send more can fill the capacity of the buckets: 6 each. A fleet is slow if its devices send a fifth of their quota.
    """

    def worst(typical: int, most: int, *groups: int, weigh: int = 2) -> float:
        full = max(1, weigh * typical)
        return max(pausing(HARMONY, most, group, full=full, keep_back=True, forge=True).harm for group in groups)

    return {
        "over_devices_n60": round(max(worst(60, 60, 1, 5), worst(60, 72, 1, 6)), 4),
        "over_devices_n60_slow_fleet": round(max(worst(12, 60, 1, 5), worst(12, 72, 1, 6)), 4),
        "over_devices_n60_equal_weights": round(worst(60, 60, 1, 5, weigh=0), 4),
    }


def malformed_by_change(coin: Coin) -> dict[int, float]:
    """Return the expected harm of one report from a malformed table, by how many of its entries show another symbol than the mask.

    The audit finds any malformed table with the same probability. A table with `coin.change` such entries of each symbol is well-formed.
    """
    value = {
        others: (coin.gain * (coin.entries - others) + coin.loss * others) / coin.entries
        for others in range((coin.symbols - 1) * coin.change)
    }
    return {others: round(float(coin.unaudited * each), 4) for others, each in value.items()}


def figures() -> dict[str, Any]:
    """Return the figures of `peel bench promise` about verified coins."""
    coins = {
        "harmony_eps1": HARMONY,
        "harmony_eps1_4_audits": replace(HARMONY, audits=4),
        "krr16_eps1": KRR,
        "hashing5000_eps1": HASHING,
        "suppression5000_eps1": SUPPRESSION,
    }
    return {
        **{
            name: {"cap": round(float(coin.gain), 3)}
            | {f"n{n}": round(float(harm(coin, n)), 4) for n in LENGTHS}
            | {f"bucket_n{n}": round(float(harm(coin, n, group=n)), 4) for n in LENGTHS}
            for name, coin in coins.items()
        },
        **over_devices(),
    }
