# SPDX-License-Identifier: MIT
"""The statistics layer: wealth from counts.

A coin tossed under the rule shows any given face with probability at most u, whatever the reading. Whoever bets a share of a unit
capital on that face at odds that are fair for u has wealth ::

    W_n = prod_i (1 + lambda (1{face_i} - u)),    0 < lambda < 1/u

which is a non-negative supermartingale for every honest device, so P(sup W_n >= 1/alpha) <= alpha (Ville 1939; as a test: Shafer 2021,
Waudby-Smith and Ramdas 2024). With lambda = c/u for fixed fractions c, W is a function of two counts, and a weighted mean of such wealths
over fractions, faces and attributes is one more supermartingale. Nothing here depends on the order of the reports.

Late reports are a second process. The attributes that they were assigned may have been counted as gaps before, so bets on them are not fair
beside bets on gaps; on their own they are. The two share alpha: a device is exposed by either, once share times W is at least 1/alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.mechanisms.base import Family

__all__ = ["FRACTIONS", "Bet", "crossed", "log_wealth", "strongest"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FRACTIONS = (0.98, 0.8, 0.55, 0.3, 0.1)
"""Shares of the largest admissible stake; c is best (Kelly) against a face that comes up with probability u + c (1 - u)."""


@dataclass(frozen=True)
class Bet:
    """The bet that won most: what an exposure by statistics shows as evidence."""

    name: str
    index: int | None
    """Attribute or category, None for a bet over all of them."""
    events: int
    trials: int
    bound: float


def _log_wealths(events: Ints, trials: Ints, bound: float) -> Floats:
    """Log wealth per fraction: counts of any shape, one more axis behind."""
    fractions = np.array(FRACTIONS)
    gain = np.log1p(fractions * (1 - bound) / bound)
    loss = np.log1p(-fractions)
    return np.asarray(events[..., None] * gain + (trials - events)[..., None] * loss)


def log_wealth(profile: Profile, counts: Ints) -> Floats:
    """Natural logarithm of each device's wealth: that of its richer process, times the process's share of alpha.

    Parameters
    ----------
    counts : int64, shape (D, k, 6)
        Columns as in `tables.Conduct`: per attribute the plus, minus, agreeing and disagreeing tosses, the reports that
        were not late, and the gaps; the tosses that are not among the former are late. For kRR only the first is used.

    Returns
    -------
    float64, shape (D,)
        About 0 for a device that has said nothing; it is exposed from log(1/alpha) on.
    """
    richest = np.full(len(counts), -np.inf)
    for process in mechanism_of(profile).processes(profile, counts):
        richest = np.maximum(richest, np.log(process.share) + _log_mean(process.families))
    return richest


def _log_mean(families: Sequence[Family]) -> Floats:
    """Log of the weighted mean of all wealths, float64[D]."""
    total = np.full(len(families[0].events), -np.inf)
    for family in families:
        logs = _log_wealths(family.events, family.trials, family.bound)
        weight = family.weight / (logs.shape[1] * logs.shape[2])
        total = np.logaddexp(total, np.logaddexp.reduce(logs, axis=(1, 2)) + np.log(weight))
    return total


def crossed(profile: Profile, counts: Ints, alpha: float) -> npt.NDArray[np.bool_]:
    """Which devices' wealth has reached 1/alpha, bool[D].

    A mean is no more than its largest part, so the sum is taken only for devices with a single bet that high. And a bet is high only on a
    face that came more often than its bound allows, often enough for the greatest possible gain of 1/bound each time.
    """
    limit = -np.log(alpha)
    suspect = np.zeros(len(counts), np.bool_)
    for family in (each for process in mechanism_of(profile).processes(profile, counts) for each in process.families):
        likely = (family.events * -np.log(family.bound) >= limit) & (family.events > family.bound * family.trials)
        device = np.nonzero(likely)[0]
        logs = _log_wealths(family.events[likely], family.trials[likely], family.bound)
        suspect[device[logs.max(axis=1) >= limit]] = True
    result = np.zeros(len(counts), np.bool_)
    result[suspect] = log_wealth(profile, counts[suspect]) >= limit
    return result


def strongest(profile: Profile, counts: Ints) -> Bet:
    """Return the bet that adds most to the wealth of one device, counts int64[k, 6]."""
    processes = mechanism_of(profile).processes(profile, counts[None])
    candidates = [_best(process.share, family) for process in processes for family in process.families]
    return max(candidates, key=lambda candidate: candidate[0])[1]


def _best(share: float, family: Family) -> tuple[float, Bet]:
    """Log wealth and bet of the attribute that adds most, for one device."""
    logs = np.logaddexp.reduce(_log_wealths(family.events, family.trials, family.bound)[0], axis=1)
    index = int(np.argmax(logs))
    bet = Bet(
        name=family.name,
        index=None if family.events.shape[1] == 1 else index,
        events=int(family.events[0, index]),
        trials=int(family.trials[0, index]),
        bound=family.bound,
    )
    return float(logs[index]) + np.log(share * family.weight / family.events.shape[1]), bet
