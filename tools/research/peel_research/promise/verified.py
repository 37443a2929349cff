# SPDX-License-Identifier: MIT
"""The best play of an insider against verified coins (SPEC.md, section 13), by exact dynamic programming.

An insider may forge a table, so that its report shows the wanted symbol. The audit of the batch finds a forged table with probability
`audits / batch`. Then the device stalls or is exposed, and nothing later counts. The insider may also keep back one challenged group
after it has seen the outcomes, and nothing later counts either. Everything that counted before stays: figures were read meanwhile.

Harm is in units of a liar's harm per report, as in `peel_tools.planning.arena`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb
from typing import Any

__all__ = ["HARMONY", "HASHING", "KRR", "Coin", "figures", "harm", "pausing"]

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


def harm(coin: Coin, reports: int, group: int = 1) -> Fraction:
    """Return the best expected harm per report over a liar's, for so many reports in challenge groups of `group` reports.

    Each report has its number in a batch of its own: several forged tables in one batch are found with a higher probability.
    Reports that never count do no harm. In a mean over devices this is the harm with pro rata weights.
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


def pausing(coin: Coin, reports: int, group: int, *, pro_rata: bool, keep_back: bool = False) -> float:
    """Return the harm in a mean over devices of an insider with fair tables, who falls silent after a group of his choice.

    With `pro_rata` a device weighs by its share of the promised reports; without, a device with few reports weighs as much as any.
    With `keep_back` he may also keep back the last challenged group.
    """
    gain, loss = float(coin.gain), float(coin.loss)
    outcomes = {size: [float(p) for _, p in _fair(coin, size)] for size in {group, reports % group} - {0}}

    @cache
    def best(counted: int, wanted: int) -> float:
        total = wanted * gain + (counted - wanted) * loss
        silent = total / (reports if pro_rata else counted) if counted else 0.0
        size = min(group, reports - counted)
        if not size:
            return silent
        going_on = sum(
            p * max(best(counted + size, wanted + more), silent if keep_back else float("-inf"))
            for more, p in enumerate(outcomes[size])
        )
        return max(silent, going_on) if counted else going_on

    return best(0, 0)


def figures() -> dict[str, Any]:
    """Return the figures of `peel bench promise` about verified coins."""
    coins = {"harmony_eps1": HARMONY, "krr16_eps1": KRR, "hashing5000_eps1": HASHING}
    return {
        **{
            name: {"cap": round(float(coin.gain), 3)}
            | {f"n{n}": round(float(harm(coin, n)), 4) for n in LENGTHS}
            | {f"bucket_n{n}": round(float(harm(coin, n, group=n)), 4) for n in LENGTHS}
            for name, coin in coins.items()
        },
        "over_devices_n60": round(float(max(harm(HARMONY, 60), harm(HARMONY, 60, group=5))), 4),
    }
