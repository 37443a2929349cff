# SPDX-License-Identifier: MIT
"""The accuracy of every mechanism, without PEEL and through its encoder, and the prediction of the paper's accuracy theorem.

MSE(PEEL) = MSE(LDP) + Delta_n. Squared errors are means over attributes, on the scale of [-1, 1], or over categories, of shares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peel_core.batch import project_many
from peel_core.primitives import MAX_WIDTH
from peel_core.profile import DEFAULT_WIDTH
from peel_core.projection import reconstruct, reconstruction, search_seed
from peel_research.lab.data import LabData
from peel_research.lab.mechanisms import MECHANISMS, Mechanism, RandomisedResponse
from peel_research.lab.mechanisms.sampling import Floats, Sparse
from peel_research.lab.spread import Spread

__all__ = ["Accuracy", "accuracy", "measure", "through_the_encoder"]

_SEEDS, _QUICK_SEEDS = 100, 20
_QUICK_ROWS = 2000


@dataclass(frozen=True)
class Accuracy:
    """Mean squared errors of one mechanism over seeds, measured and expected."""

    mechanism: str
    kind: str
    natural: bool
    """Its reports are 1-sparse as they are."""
    epsilon: float
    """The epsilon of one report."""
    size: int
    reports: int
    seeds: int
    plain: Spread
    """Without PEEL."""
    plain_theory: float
    free: Spread
    """From the paper's 1-sparse reports, which carry a magnitude of their own; through no encoder, for none here carries it."""
    free_theory: float
    peel: Spread
    """From 1-sparse reports of constant magnitude, through the encoder and back."""
    peel_theory: float

    @property
    def added(self) -> float:
        """Delta_n, expected, of what a frame carries: by how much PEEL adds to the error."""
        return self.peel_theory - self.plain_theory


def accuracy(
    data: LabData, *, epsilon: float = 1.0, seeds: int | None = None, quick: bool = False
) -> Iterator[Accuracy]:
    """One row per mechanism that fits the data, as soon as it is measured.

    Binary randomised response is asked for the commonest category. Mechanisms that need more categories than there are, or more than a
    frame can tell apart, are left out.
    """
    rounds = seeds or (_QUICK_SEEDS if quick else _SEEDS)
    for kind in MECHANISMS:
        values, size = _task(kind, data)
        if size < kind.least_size():
            continue
        mechanism = kind(epsilon, size)
        if mechanism.carried <= MAX_WIDTH:
            yield measure(mechanism, values[:_QUICK_ROWS] if quick else values, rounds)


def _task(kind: type[Mechanism], data: LabData) -> tuple[NDArray[Any], int]:
    """The values that such a mechanism reports, and its size."""
    if kind.kind == "numeric":
        return data.values, data.k
    if kind is RandomisedResponse:
        return np.where(data.category == np.bincount(data.category).argmax(), 1, 0), 2
    return data.category, len(data.categories)


def measure(mechanism: Mechanism, values: NDArray[Any], seeds: int) -> Accuracy:
    """Report every row once for each seed."""
    truth = mechanism.truth(values)
    squares: dict[str, list[float]] = {"plain": [], "free": [], "peel": []}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        reports = mechanism.perturb(values, rng)
        free = mechanism.sparse_free(reports, rng)
        restored = through_the_encoder(mechanism.sparse(reports, rng), mechanism.carried, mechanism.bound)
        squares["plain"].append(_square(mechanism.estimate(reports), truth))
        squares["free"].append(_square(mechanism.estimate_sparse(free), truth))
        squares["peel"].append(_square(mechanism.estimate_sparse(restored), truth))
    expected = mechanism.variance(values)
    return Accuracy(
        mechanism=mechanism.name,
        kind=mechanism.kind,
        natural=mechanism.natural,
        epsilon=mechanism.report_epsilon,
        size=mechanism.size,
        reports=len(values),
        seeds=seeds,
        plain_theory=expected,
        free_theory=expected + mechanism.added_variance_free(values),
        peel_theory=expected + mechanism.added_variance(values),
        **{form: Spread.of(each) for form, each in squares.items()},
    )


def _square(estimate: Floats, truth: Floats) -> float:
    return float(np.mean(np.square(estimate - truth)))


def through_the_encoder(sparse: Sparse, carried: int, magnitude: float) -> Sparse:
    """Codewords of the reports, reconstructed and restored by the core: place and sign travel, the magnitude is public."""
    seed, width, gamma = _code(carried)
    assigned, index = np.divmod(sparse.index, carried)
    codewords = project_many(seed, width, index, sparse.value < 0)
    place, sign, _ = reconstruct(gamma, codewords.astype(np.float32))
    return Sparse(assigned * carried + place, np.asarray(sign * magnitude, np.float64))


@lru_cache(maxsize=8)
def _code(carried: int) -> tuple[int, int, NDArray[np.float32]]:
    width = max(DEFAULT_WIDTH, carried)
    seed, _ = search_seed(width, carried)
    return seed, width, reconstruction(seed, width)
