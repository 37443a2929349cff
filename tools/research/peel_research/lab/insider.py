# SPDX-License-Identifier: MIT
"""Table (e): the harm of an omniscient insider, by target and number of reports, and an upper bound of it.

**The bounds.** One fraction c of one bet alone, begun with a stake s, holds ``s (1 + c (1 - u)/u)^right (1 - c)^wrong``, u the most that
an honest device makes the bet right. A device that is not exposed has less than the limit, so

    right A - wrong B < room        A = log(1 + c (1 - u)/u), B = -log(1 - c), room = log(limit / s)

for every fraction, and the least bound over fractions counts. What *right* and *wrong* are worth depends on the target:

- *plus of all attributes* (or minus: the capitals are the same). The bet on plus is right with every plus: right = m, wrong = n - m.
- *a direction of his own per attribute*. The bet that a report says what the device has said of this attribute most often is not made on
  a tie. Let an attribute's lead be by how much: it grows with what is right, falls with what is wrong, and begins anew from a tie. All
  that attributes were pushed, net, is at most right - wrong + ties; ties come first, or after a wrong one, so ties <= wrong + k. With
  n = right + wrong + ties a net push of D needs right >= D - k and wrong <= (n - D)/2. A **steady** insider never lets a lead go back
  to zero, so that ties <= k: right >= m - k, wrong = n - m.
- *the same by a sleeper*, whom the bet remembers by his honest life: a lead of at most L, for or against what he then wants. Net, he pushes
  an attribute by at most 2 L more than right - wrong + ties: back to the tie, and as far again. With 2 L k for the free pushes of all k,
  right >= D - k - 2 L k and wrong <= (n + 2 L k - D)/2.
- *a set of categories, by local hashing*. The same of hashes in place of attributes, and symbols in place of signs; pushed against the set
  are all other symbols. An insider that chooses by the hash when to push moves the sum of a set further than its reports say.
- *a set of categories, by kRR*. The bet that the category is among the a that came most often is right with every one of his a, if he is
  steady: if they always lead, once each has come. For others there is the cap alone.

In the limit a steady insider does a liar's harm. One who is not steady, and wastes reports to make ties, is held by these bets alone to a
net push of u/(2 - u) per report. No known strategy gets as far with all attributes, because other bets apply, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from peel_tools.planning.arena import ALPHA, Arena, Goal, HarmonyArena, HashingArena, KrrArena
from peel_tools.planning.insider import HONEST_LIFE, ratios

__all__ = [
    "FRACTIONS",
    "Capital",
    "InsiderRow",
    "insider_table",
    "most_lead",
    "plus_bound",
    "steady_bound",
    "turning_bound",
]

FRACTIONS = (0.95, 0.5, 0.27, 0.14, 0.06, 0.025, 0.01, 0.003)
"""As in the kernel (`gateway/kernels/capital.h`)."""
_FLOAT = 2.0**-22
"""The largest rounding loss of a bet at each toss."""
_QUICK_LENGTHS = (100, 300, 1000, 3000, 10_000)
_LENGTHS = (*_QUICK_LENGTHS, 30_000, 100_000)


@dataclass(frozen=True)
class InsiderRow:
    """Harm per report over a liar's, on average over n reports without ever being exposed."""

    mechanism: str
    epsilon: float
    k: int
    target: str
    n: int
    cap: float
    """The harm of the first report alone, which no LDP protocol can avoid."""
    newcomer: float
    """The most harm of the strategies that are played."""
    steady: float | None
    """The bound for steady insiders; None if only the cap is known."""
    bound: float | None
    """The bound for all insiders."""
    sleeper: float | None
    """The most harm of these strategies after 100,000 honest reports; None in a quick run."""
    sleeper_bound: float | None
    """The bound for all insiders after as many honest reports."""


@dataclass(frozen=True)
class Capital:
    """A bet that bounds an insider."""

    most: float
    """u, the largest probability with which an honest device makes the bet right."""
    capital: float
    late_share: float
    """The share of alpha of the other e-process."""

    def room(self, n: int, honest: int = 0) -> float:
        """Return how far the log capital of a fraction can grow in n tosses after this many honest reports."""
        stake = _put_in(honest + 1) * self.capital / len(FRACTIONS)
        return log(1 / ALPHA) - log(1 - self.late_share) - log(stake) + n * _FLOAT

    def least(self, bound: Callable[[float, float], float]) -> float:
        """Return the least bound over all fractions, as a function of A and B."""
        odds = (1 - self.most) / self.most
        return min(bound(log(1 + c * odds), -log(1 - c)) for c in FRACTIONS)


def _put_in(toss: int) -> float:
    """Return the stake that the kernel adds at a toss, of a capital of 1."""
    b = toss.bit_length() - 1
    return 1 / ((1 << b) * (b + 1) * (b + 2))


def plus_bound(capital: Capital, goal: Goal, n: int, honest: int = 0) -> float:
    """Return the bound on the harm per report for the goal plus (or minus) of all attributes."""
    return steady_bound(capital, goal, n, free=0, honest=honest)


def steady_bound(capital: Capital, goal: Goal, n: int, *, free: int, lost: int = 0, honest: int = 0) -> float:
    """Return the bound for a steady insider: at most `free` wanted reports are not right, and `lost` of these are wrong."""
    room = capital.room(n, honest)
    most = capital.least(lambda a, b: (room + free * a + (n + lost) * b) / (a + b))
    return _harm(goal, most, n)


def turning_bound(capital: Capital, goal: Goal, n: int, units: int, *, honest: int = 0, lead: int = 0) -> float:
    """Return the bound for any insider, if the bet predicts the most frequent symbol of a unit and remembers a lead from honest reports."""
    room, old = capital.room(n, honest), 2 * lead * units
    net = capital.least(lambda a, b: (room + (units + old) * a + (n + old) * b / 2) / (a + b / 2))
    return _harm(goal, (n + net) / 2, n)


def most_lead(symbols: int) -> int:
    """Return the largest lead of one symbol that the kernel remembers (a cell of `predictions.c`)."""
    return 256 // symbols - 1


def _harm(goal: Goal, wanted: float, n: int) -> float:
    """Return the harm per report of this many wanted reports among n, at most the cap."""
    share = min(wanted / n, 1.0)
    return share * goal.gain + (1 - share) * goal.loss


# ---- the bets that bound each mechanism's targets ----

_SLEPT = HONEST_LIFE + 64
"""The most honest reports of a sleeper."""
Bounds = Callable[[Goal, int], tuple[float | None, float | None, float | None]]
"""Returns the bounds of a goal and a length: for steady insiders, for all, and for all sleepers."""


def _harmony_bounds(arena: HarmonyArena) -> Bounds:
    bets, predictions = arena.e_process.bets, arena.e_process.bets.blocks[0].predictions
    assert predictions is not None
    plus, past = (
        Capital(predictions.most, predictions.capital[name], bets.late_share) for name in ("plus", "own past")
    )

    def bounds(goal: Goal, n: int) -> tuple[float | None, float | None, float | None]:
        if goal.name == "plus":
            return plus_bound(plus, goal, n), plus_bound(plus, goal, n), plus_bound(plus, goal, n, _SLEPT)
        anybody = turning_bound(past, goal, n, arena.k)
        sleeper = turning_bound(past, goal, n, arena.k, honest=_SLEPT, lead=most_lead(2))
        return min(steady_bound(past, goal, n, free=arena.k), anybody), anybody, sleeper

    return bounds


def _krr_bounds(arena: KrrArena) -> Bounds:
    sets = arena.e_process.bets.blocks[0].symbol_sets
    assert sets is not None

    def bounds(goal: Goal, n: int) -> tuple[float | None, float | None, float | None]:
        size = int(goal.name.split()[0])
        played = next(each for each in sets.few + sets.many if each >= size)
        most = sets.most + (played - 1) * sets.least
        capital = Capital(most, sets.capital.past / len(sets.few + sets.many), arena.e_process.bets.late_share)
        return steady_bound(capital, goal, n, free=size, lost=size), None, None

    return bounds


def _hashing_bounds(arena: HashingArena) -> Bounds:
    bets, predictions = arena.e_process.bets, arena.e_process.bets.blocks[0].predictions

    def bounds(goal: Goal, n: int) -> tuple[float | None, float | None, float | None]:
        if predictions is None:  # so many hashes that what is said about each is not remembered
            return None, None, None
        capital = Capital(predictions.most, predictions.capital["own past"], bets.late_share)
        anybody = turning_bound(capital, goal, n, arena.hashes)
        sleeper = turning_bound(capital, goal, n, arena.hashes, honest=_SLEPT, lead=most_lead(arena.symbols))
        return min(steady_bound(capital, goal, n, free=arena.hashes), anybody), anybody, sleeper

    return bounds


# ---- the table ----


def insider_table(epsilon: float, k: int, categories: int, *, quick: bool) -> list[InsiderRow]:
    """Return the rows for k attributes and this many categories, by target and number of reports."""
    harmony, krr = HarmonyArena(epsilon, k), KrrArena(epsilon, categories)
    hashing = HashingArena(epsilon, categories)
    return [
        *_rows(harmony, "harmony", epsilon, k, _harmony_bounds(harmony), quick),
        *_rows(krr, "krr", epsilon, categories, _krr_bounds(krr), quick),
        *_rows(hashing, "hashing", epsilon, categories, _hashing_bounds(hashing), quick),
    ]


_CALLED = {"plus": "plus of all, or minus", "mixed": "half of them up, half down"}


def _rows(arena: Arena, mechanism: str, epsilon: float, k: int, bounds: Bounds, quick: bool) -> list[InsiderRow]:
    rng = np.random.default_rng(2)
    lengths = _QUICK_LENGTHS if quick else _LENGTHS
    goals = {goal.name: goal for goal in arena.goals(rng)}  # half of a few categories may be one of the other sizes
    return [
        row for goal in goals.values() for row in _of_goal(arena, mechanism, epsilon, k, goal, bounds, lengths, rng)
    ]


def _of_goal(
    arena: Arena, mechanism: str, epsilon: float, k: int, goal: Goal, bounds: Bounds, lengths: Sequence[int],
    rng: np.random.Generator,
) -> list[InsiderRow]:  # fmt: skip
    sleepers = lengths is _LENGTHS
    best = ratios(arena, [goal], lengths, rng, sleepers=sleepers)
    rows = []
    for n in lengths:
        if f"ratio_{n}" not in best:
            continue
        steady, bound, sleeper_bound = bounds(goal, n)
        rows.append(
            InsiderRow(
                mechanism=mechanism,
                epsilon=epsilon,
                k=k,
                target=_CALLED.get(goal.name, goal.name),
                n=n,
                cap=goal.gain,
                newcomer=best[f"ratio_{n}"],
                steady=steady,
                bound=bound,
                sleeper=best.get(f"sleeper_ratio_{n}"),
                sleeper_bound=sleeper_bound if sleepers else None,
            )
        )
    return rows
