# SPDX-License-Identifier: MIT
"""The interface of a defence: its input and its judgement.

A collector without PEEL has the reports of devices over rounds, and knows how honest ones are made. A defence also gets the knowledge that
its paper assumes (`Knowledge`), and never more than its `assumes` says.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = [
    "Bools",
    "Collected",
    "Floats",
    "Frequencies",
    "Ints",
    "Judgement",
    "Knowledge",
    "Numbers",
    "Rival",
    "SetHunter",
]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Frequencies:
    """Reports of a frequency oracle, as the categories that each supports (Wang et al. 2017, pure protocols)."""

    supports: Bools
    """bool[devices, rounds, categories]: kRR supports one, OUE those whose bit is set, local hashing those with the reported hash."""
    p: float
    """Probability that a report supports its own category."""
    q: float
    """Probability that it supports another one."""

    @property
    def rounds(self) -> int:
        return int(self.supports.shape[1])

    @property
    def single(self) -> bool:
        """Does each report support exactly one category, as those of kRR do?"""
        return bool((self.supports.sum(axis=2) == 1).all())

    @cached_property
    def estimate(self) -> Floats:
        """Unbiased frequencies of all reports, float64[categories]."""
        return np.asarray((self.supports.mean(axis=(0, 1)) - self.q) / (self.p - self.q))

    def of(self, devices: Bools) -> Frequencies:
        """Those of some devices, bool[devices]."""
        return Frequencies(self.supports[devices], self.p, self.q)


@dataclass(frozen=True)
class Numbers:
    """Reports of additive noise on a reading in [-1, 1]."""

    values: Floats
    """float64[devices, rounds]."""
    scale: float
    """Of the Laplace noise: 2 / epsilon."""

    @property
    def rounds(self) -> int:
        return int(self.values.shape[1])

    @cached_property
    def estimate(self) -> Floats:
        """The mean, float64[1]."""
        return np.array([self.values.mean()])

    def of(self, devices: Bools) -> Numbers:
        """Those of some devices, bool[devices]."""
        return Numbers(self.values[devices], self.scale)


Collected = Frequencies | Numbers


@dataclass(frozen=True)
class Knowledge:
    """The knowledge that a defence's paper assumes. A real collector has an empty one."""

    targets: Ints | None = None
    """The categories that the attack promotes."""
    clean: Collected | None = None
    """As many rounds of the same devices before the attack began."""
    labels: Bools | None = None
    """Of the first devices, whether each is poisoned: a training set."""
    ratio: float | None = None
    """Fake devices per honest one, as somebody supposes it."""


@dataclass(frozen=True)
class Judgement:
    """A defence's judgement; None for a part that it does not judge."""

    ratio: float | None = None
    """Share of the devices that it takes for poisoned. Estimators of it are unbiased rather than sensible: it may leave [0, 1]."""
    flags: Bools | None = None
    """bool[devices]: those it takes for poisoned."""
    estimate: Floats | None = None
    """The estimate that it would publish."""


class Rival(Protocol):
    """A defence against poisoned reports."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str:
        """The paper that describes it."""

    @property
    def assumes(self) -> str:
        """The knowledge that it assumes, in words; empty if none."""

    @property
    def departs(self) -> str:
        """The differences from the paper's description."""

    def judge(self, collected: Collected, known: Knowledge) -> Judgement | None:
        """Judge; None where it does not apply to such reports, or lacks what it assumes."""


class SetHunter(abc.ABC):
    """Base of defences that look for a set of categories which crafted reports support together."""

    def judge(self, collected: Collected, known: Knowledge) -> Judgement | None:
        """Flag whom `_abnormal` finds. A report that supports one category (kRR) has no sets, and a number none either."""
        if not isinstance(collected, Frequencies) or collected.single:
            return None
        flags = self._abnormal(collected.supports[:, 0], collected.p, collected.q)
        kept = collected.of(~flags)
        return Judgement(float(flags.mean()), flags, kept.estimate if len(kept.supports) else None)

    @abc.abstractmethod
    def _abnormal(self, bits: Bools, p: float, q: float) -> Bools:
        """Return the reports of the first round that look crafted, bool[reports]; `bits` is bool[reports, categories]."""
