# SPDX-License-Identifier: MIT
"""The mechanisms that devices run, by the core's own coins: Harmony, kRR and local hashing."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from peel_core import hash_family
from peel_core.batch import perturb_many
from peel_core.hashing import hashed, supports
from peel_core.kinds import CHOICE, HASHED, SIGN
from peel_core.odds import EPSILON_ONE, Odds, odds_of
from peel_core.primitives import READING_ONE, CoreBlock
from peel_research.lab.mechanisms.base import Categorical, Indicators, Mechanism, Natural, Reports
from peel_research.lab.mechanisms.one_sign import OneSign
from peel_research.lab.mechanisms.sampling import Floats, Ints

__all__ = ["Harmony", "Krr", "LocalHashing", "RandomisedResponse", "odds_near"]

_LEAST_EPSILON, _MOST_EPSILON = 0.005, 5.58


def odds_near(epsilon: float, outcomes: int) -> Odds:
    """Return the odds of an epsilon, or of the nearest one that has odds."""
    return odds_of(int(min(max(epsilon, _LEAST_EPSILON), _MOST_EPSILON) * EPSILON_ONE), outcomes)


class _OnDevices(Mechanism):
    """Tosses the core's coins. Budgets become odds, and readings are rounded to 2^-15, as on devices."""

    form: ClassVar[int]
    """The form of its questions in the core."""

    @property
    def symbols(self) -> int:
        """k: how many indices a report can have."""
        return self.size

    @property
    def outcomes(self) -> int:
        """Between how many outcomes the coin decides."""
        return self.symbols

    @cached_property
    def keep(self) -> float:
        """The share of tosses that the reading decides."""
        return self._odds.true_share

    @property
    def report_epsilon(self) -> float:
        """The epsilon of the odds, a little below the budget."""
        return self._odds.epsilon

    @cached_property
    def _odds(self) -> Odds:
        return odds_near(self.epsilon, self.outcomes)

    def _toss(
        self, words: NDArray[np.uint32], readings: NDArray[Any], rng: np.random.Generator, domain: int = 0
    ) -> tuple[Ints, Ints]:
        questions = self.symbols if self.form == SIGN else 1
        blocks = [CoreBlock(self.form, 1, questions, self.symbols // questions, domain, *self._odds[:2])]
        tossed = perturb_many(blocks, max(2, self.symbols), words, readings, entropy=rng.bytes(32))
        return tossed[0].astype(np.int64), tossed[1].astype(np.int64)


def _words(count: int, rng: np.random.Generator) -> NDArray[np.uint32]:
    """Return the two index words of each report number, which the device does not choose."""
    return rng.integers(2**32, size=(count, 2), dtype=np.uint32)


class Harmony(_OnDevices, OneSign):
    """A sign for one attribute, P(+) = 1/2 (1 + x (keep - change) / K) (Nguyen et al. 2016). A report is (attribute, sign), int64[N, 2]."""

    name = "harmony"
    form = SIGN

    @property
    def outcomes(self) -> int:
        return 2

    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        readings = np.rint(np.clip(values, -1, 1) * READING_ONE).astype(np.int32)
        return np.stack(self._toss(_words(len(values), rng), readings, rng), axis=1)


class Krr(_OnDevices, Natural, Indicators):
    """The true category with probability keep, otherwise any (Kairouz et al. 2016). A report is a category, int64[N]."""

    name = "krr"
    form = CHOICE

    @property
    def own(self) -> float:
        return self.keep + self.other

    @property
    def other(self) -> float:
        return (1 - self.keep) / self.size

    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        return self._toss(np.zeros((len(values), 2), np.uint32), values, rng)[0]

    def entries(self, reports: Reports) -> tuple[Ints, Floats]:
        return reports, np.ones(len(reports))

    def log_likelihood(self, reports: Reports, values: NDArray[Any]) -> Floats:
        return np.asarray(np.log(self.other + self.keep * (reports == values)))

    def outputs(self) -> Reports:
        return np.arange(self.size)


class RandomisedResponse(Krr):
    """kRR over two categories: the truth, or any answer (Warner 1965)."""

    name = "rr"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size != 2:
            raise ValueError(f"rr: is for a size of 2 categories, not {self.size}")


class LocalHashing(_OnDevices, Natural, Categorical):
    """kRR over the few symbols that a hash leaves of the categories (Wang et al. 2017). A report is (hash, symbol), int64[N, 2].

    The statistic has an entry per pair of hash and symbol, a cell; a frame carries the symbol, and the report's number the hash.
    """

    name = "hashing"
    form = HASHED

    @property
    def symbols(self) -> int:
        return hash_family.symbols(int(self.epsilon * EPSILON_ONE))

    @property
    def hashes(self) -> int:
        """The number of hashes that a report number can assign."""
        return hash_family.hash_count(self.symbols, self.size)

    @property
    def width(self) -> int:
        return self.hashes * self.symbols

    @property
    def carried(self) -> int:
        return self.symbols

    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        words = _words(len(values), rng)
        symbol, _ = self._toss(words, values, rng, domain=self.size)
        return np.stack(
            [(words[:, 1].astype(np.uint64) * np.uint64(self.hashes) >> np.uint64(32)).astype(np.int64), symbol], axis=1
        )

    def entries(self, reports: Reports) -> tuple[Ints, Floats]:
        return reports[:, 0] * self.symbols + reports[:, 1], np.ones(len(reports))

    def decode(self, mean: Floats) -> Floats:
        g = self.symbols
        supported = supports(np.arange(self.width), mean, g, self.size)
        return (supported - 1 / g) / (self.keep * (1 - 1 / g))

    def variance(self, values: NDArray[Any]) -> float:
        """A report supports its own category with probability p, any other with 1/g: so often do two categories share a symbol."""
        g = self.symbols
        p = self.keep + (1 - self.keep) / g
        per_report = p * (1 - p) + (self.size - 1) * (1 - 1 / g) / g
        return per_report / ((self.keep * (1 - 1 / g)) ** 2 * len(values) * self.size)

    def log_likelihood(self, reports: Reports, values: NDArray[Any]) -> Floats:
        truth = hashed(reports[:, 0], values, self.symbols, self.size)
        chance = (1 - self.keep) / self.symbols + self.keep * (reports[:, 1] == truth)
        return np.asarray(np.log(chance / self.hashes))

    def outputs(self) -> Reports:
        cells = np.arange(self.width)
        return np.stack([cells // self.symbols, cells % self.symbols], axis=1)
