# SPDX-License-Identifier: MIT
"""Reports for tests of defences, made by a few lines of numpy each: independent of the lab's own mechanisms."""

from __future__ import annotations

from math import exp

import numpy as np
import numpy.typing as npt

from peel_research.lab.rivals import Frequencies

Ints = npt.NDArray[np.int64]


def zipf(devices: int, categories: int, rng: np.random.Generator) -> Ints:
    """Return the category of each device; the j-th occurs 1/j as often as the first."""
    shares = 1 / np.arange(1, categories + 1)
    return rng.choice(categories, devices, p=shares / shares.sum())


def krr(held: Ints, categories: int, epsilon: float, rounds: int, rng: np.random.Generator) -> Frequencies:
    p = exp(epsilon) / (exp(epsilon) + categories - 1)
    shape = (len(held), rounds)
    other = (held[:, None] + rng.integers(1, categories, shape)) % categories
    said = np.where(rng.random(shape) < p, held[:, None], other)
    return Frequencies(said[:, :, None] == np.arange(categories), p, (1 - p) / (categories - 1))


def oue(held: Ints, categories: int, epsilon: float, rng: np.random.Generator) -> Frequencies:
    p, q = 0.5, 1 / (exp(epsilon) + 1)
    own = held[:, None] == np.arange(categories)
    bits = rng.random(own.shape) < np.where(own, p, q)
    return Frequencies(bits[:, None, :], p, q)


def targeted_krr(honest: Frequencies, fakes: int, targets: Ints, rng: np.random.Generator) -> Frequencies:
    """The first devices report a random target each time (MGA)."""
    supports = honest.supports.copy()
    chosen = targets[rng.integers(0, len(targets), (fakes, honest.rounds))]
    supports[:fakes] = chosen[:, :, None] == np.arange(supports.shape[2])
    return Frequencies(supports, honest.p, honest.q)


def targeted_oue(honest: Frequencies, fakes: int, targets: Ints, rng: np.random.Generator) -> Frequencies:
    """The first devices set all targets' bits, and others until they have as many as an honest report on average (MGA)."""
    supports = honest.supports.copy()
    categories = supports.shape[2]
    padding = max(round(honest.p + (categories - 1) * honest.q) - len(targets), 0)
    rest = np.setdiff1d(np.arange(categories), targets)
    for device in range(fakes):
        supports[device] = False
        supports[device, 0, targets] = True
        supports[device, 0, rng.choice(rest, padding, replace=False)] = True
    return Frequencies(supports, honest.p, honest.q)
