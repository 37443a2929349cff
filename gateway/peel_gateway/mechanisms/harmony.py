# SPDX-License-Identifier: MIT
"""Harmony (Nguyen et al. 2016): the number assigns an attribute, the device tosses a sign with mean (R/2^31) x.

Estimates, with c = 2^31/R ::

    ratio    m_j = c (plus_j - minus_j) / n_j            n_j = plus_j + minus_j
    plain    m_j = c k (plus_j - minus_j) / N            N = sum_j n_j     (Horvitz-Thompson)

Both are unbiased; the ratio estimator is the published one, because it does not pay for the chance in how often an attribute was
assigned: its variance is about k (c^2 - m^2)/N, that of the plain one (k c^2 - m^2)/N, larger by (k - 1) m^2/N.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.mechanisms.base import Figures, Mechanism
from peel_gateway.mechanisms.game import Face, Faces, Game, Sets, up_to_half
from peel_gateway.mechanisms.intervals import Z95, wilson

__all__ = ["HARMONY", "harmony_game", "plain_means", "ratio_means"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_ONE = 2.0**31
_LATE_SHARE = 1 / 8
"""What the process of late reports has of alpha; late reports are few, and whoever chooses among them shows soon."""
_ROUNDING = 2.0**-32
"""J = floor(w k / 2^32) hits an attribute with probability at most 1/k + 2^-32."""


def ratio_means(profile: Profile, plus: Ints, minus: Ints) -> Figures:
    """Means on [-1, 1] and their interval, float64[k] each; the mean is not clipped (it is unbiased), the interval is."""
    scale = _ONE / profile.rule
    n = plus + minus
    low, high = wilson(plus, n)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = scale * (plus - minus) / n
    return Figures(mean, np.clip(scale * (2 * low - 1), -1, 1), np.clip(scale * (2 * high - 1), -1, 1))


def plain_means(profile: Profile, plus: Ints, minus: Ints) -> Figures:
    """Horvitz-Thompson means on [-1, 1] and their normal interval, float64[k] each."""
    weight = profile.k * _ONE / profile.rule
    total = int((plus + minus).sum())
    if total == 0:
        none = np.full(profile.k, np.nan)
        return Figures(none, none, none)
    mean = weight * (plus - minus) / total
    variance = np.maximum(weight**2 * (plus + minus) / total - mean**2, 0) / total
    half = Z95 * np.sqrt(variance)
    return Figures(mean, np.clip(mean - half, -1, 1), np.clip(mean + half, -1, 1))


class _Harmony(Mechanism):
    name = "harmony"
    assigns = True
    signed = True

    def supported(self, profile: Profile, expected: Ints, index: Ints, sign: Ints) -> Bools:
        return np.asarray(index == expected)

    def toss(self, profile: Profile, cell: Ints, sign: Ints) -> tuple[Ints, Ints]:
        return cell, np.asarray(sign > 0, dtype=np.int64)

    def game(self, profile: Profile) -> Game:
        return harmony_game(profile.k, profile.rule)

    def labels(self, profile: Profile) -> list[tuple[str, str]]:
        return [(attribute.name, attribute.unit) for attribute in profile.attributes]

    def published(self, profile: Profile, plus: Ints, minus: Ints) -> Figures:
        return _physical(profile, ratio_means(profile, plus, minus))

    def plain(self, profile: Profile, plus: Ints, minus: Ints) -> Figures:
        return _physical(profile, plain_means(profile, plus, minus))


HARMONY = _Harmony()


def harmony_game(units: int, rule: int) -> Game:
    """The bets on devices with so many attributes.

    Half of the capital for the notebooks: a device that turns is found by one of them alone. What predicts without memory finds a bias in
    one direction, or with the cohort, sooner; it needs little, like the whole past, for the notebooks of a newcomer hold the same
    evidence. *Against* is for a device that turns all of its past around at once. One attribute: an eighth, for which all of them
    compete. Which attributes came, and which did not: little, for whoever picks among the attributes that his numbers assign
    gains nothing but a smaller share.
    """
    pooled = dict.fromkeys((Face.PLUS, Face.MINUS, Face.AGREE, Face.DISAGREE), 1 / 32)
    pooled |= {Face.PAST: 1 / 16, Face.AGAINST: 1 / 16, Face.RECENT: 1 / 8}
    faces = Faces(units=units, symbols=2, most=(_ONE + rule) / (2 * _ONE), capital=pooled, unit_capital=1 / 8)
    if units == 1:
        return Game(faces=faces)
    return Game(
        faces=faces,
        reports=_units(units, past=1 / 32, notebooks=2, notebook=1 / 64),
        gaps=_units(units, past=1 / 32, notebooks=2, notebook=1 / 64),
        late=_units(units, past=1.0),
        late_share=_LATE_SHARE,
    )


def _units(units: int, *, past: float, notebooks: int = 0, notebook: float = 0.0) -> Sets:
    """Sets of attributes. Too few need no bets: what does not come is a gap, and what is no gap comes."""
    each = 1 / units + _ROUNDING
    few = up_to_half(units, 4)
    return Sets(items=units, few=few, most=each, least=each, past=past, notebooks=notebooks, notebook=notebook)


def _physical(profile: Profile, figures: Figures) -> Figures:
    """From [-1, 1] to each attribute's own range."""
    lows = np.array([attribute.low for attribute in profile.attributes])
    highs = np.array([attribute.high for attribute in profile.attributes])
    middle, half = (lows + highs) / 2, (highs - lows) / 2
    return Figures(*(middle + half * each for each in figures))
