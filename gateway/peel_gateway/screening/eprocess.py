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

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Profile

__all__ = ["FRACTIONS", "Bet", "crossed", "log_wealth", "strongest"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

FRACTIONS = (0.98, 0.8, 0.55, 0.3, 0.1)
"""Shares of the largest admissible stake; c is best (Kelly) against a face that comes up with probability u + c (1 - u)."""

_PLUS, _MINUS, _AGREE, _DISAGREE, _FRESH, _GAPS = range(6)
_LATE_SHARE = 1 / 8
"""What the process of late reports has of alpha; late reports are few, and whoever chooses among them shows soon."""
_ROUNDING = 2.0**-32
"""J = floor(w k / 2^32) hits an attribute with probability at most 1/k + 2^-32."""


@dataclass(frozen=True)
class _Family:
    """Bets of one kind: events of D devices (and B attributes), out of trials, each with probability at most bound."""

    name: str
    events: Ints
    """int64[D, B]."""
    trials: Ints
    """int64[D, B]."""
    bound: float
    weight: float
    """Share of the capital for the whole family."""


@dataclass(frozen=True)
class Bet:
    """The bet that won most: what an exposure by statistics shows as evidence."""

    name: str
    index: int | None
    """Attribute or category, None for a bet over all of them."""
    events: int
    trials: int
    bound: float


def _processes(profile: Profile, counts: Ints) -> Iterator[tuple[float, list[_Family]]]:
    """Yield each supermartingale: its share of alpha, and its families, whose weights add up to 1."""
    if profile.mechanism == "krr":
        yield 1.0, list(_krr(profile, counts))
    else:
        yield 1 - _LATE_SHARE, list(_harmony(profile, counts))
        late = counts[..., _PLUS] + counts[..., _MINUS] - counts[..., _FRESH]
        yield _LATE_SHARE, list(_attributes(profile, "late reports", late, 1 / 2))


def _harmony(profile: Profile, counts: Ints) -> Iterator[_Family]:
    """Faces over all attributes: 1/2 of the capital; per attribute: 1/4; which attributes came, and which did not: 1/8 each."""
    face = (2.0**31 + profile.rule) / 2.0**32
    tosses = counts[..., _PLUS] + counts[..., _MINUS]
    judged = counts[..., _AGREE] + counts[..., _DISAGREE]
    for name, column, trials in (
        ("plus", _PLUS, tosses),
        ("minus", _MINUS, tosses),
        ("agree", _AGREE, judged),
        ("disagree", _DISAGREE, judged),
    ):
        events = counts[..., column]
        yield _Family(name, events.sum(axis=1, keepdims=True), trials.sum(axis=1, keepdims=True), face, 1 / 8)
        yield _Family(f"{name} of one attribute", events, trials, face, 1 / 16)
    for name, column in (("reports", _FRESH), ("gaps", _GAPS)):
        yield from _attributes(profile, name, counts[..., column], 1 / 16)


def _attributes(profile: Profile, name: str, events: Ints, weight: float) -> Iterator[_Family]:
    """An attribute is assigned with probability 1/k, unknown to the network."""
    return _shares(name, events, 1 / profile.k + _ROUNDING, 1 - 1 / profile.k + _ROUNDING, weight)


def _krr(profile: Profile, counts: Ints) -> Iterator[_Family]:
    """A category comes with probability between q and p (section 6.2 of the specification)."""
    least = (2.0**31 - profile.rule) / (profile.k * 2.0**31)
    most = (2.0**31 + (profile.k - 1) * profile.rule) / (profile.k * 2.0**31)
    yield from _shares("category", counts[..., _PLUS], most, 1 - least, 1 / 2)


def _shares(name: str, events: Ints, most: float, not_least: float, weight: float) -> Iterator[_Family]:
    """One attribute too often, or too seldom, among all."""
    trials = np.broadcast_to(events.sum(axis=1, keepdims=True), events.shape)
    yield _Family(f"{name}: too many", events, trials, most, weight)
    yield _Family(f"{name}: too few", trials - events, trials, not_least, weight)


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
        Columns as in `store.EVIDENCE_COLUMNS`: per attribute the plus, minus, agreeing and disagreeing tosses, the reports that
        were not late, and the gaps; the tosses that are not among the former are late. For kRR only the first is used.

    Returns
    -------
    float64, shape (D,)
        About 0 for a device that has said nothing; it is exposed from log(1/alpha) on.
    """
    richest = np.full(len(counts), -np.inf)
    for share, families in _processes(profile, counts):
        richest = np.maximum(richest, np.log(share) + _log_mean(families))
    return richest


def _log_mean(families: list[_Family]) -> Floats:
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
    for family in (each for _, families in _processes(profile, counts) for each in families):
        likely = (family.events * -np.log(family.bound) >= limit) & (family.events > family.bound * family.trials)
        device = np.nonzero(likely)[0]
        logs = _log_wealths(family.events[likely], family.trials[likely], family.bound)
        suspect[device[logs.max(axis=1) >= limit]] = True
    result = np.zeros(len(counts), np.bool_)
    result[suspect] = log_wealth(profile, counts[suspect]) >= limit
    return result


def strongest(profile: Profile, counts: Ints) -> Bet:
    """Return the bet that adds most to the wealth of one device, counts int64[k, 6]."""
    candidates = [_best(share, family) for share, families in _processes(profile, counts[None]) for family in families]
    return max(candidates, key=lambda candidate: candidate[0])[1]


def _best(share: float, family: _Family) -> tuple[float, Bet]:
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
