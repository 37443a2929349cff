# SPDX-License-Identifier: MIT
"""The lab's mechanisms at a small size, and data for them: for the tests in `lab/`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from peel_research.lab.mechanisms import MECHANISMS, Mechanism, RandomisedResponse

EACH = pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.name)
EPSILON = 1.0


def made(kind: type[Mechanism], size: int = 5) -> Mechanism:
    return kind(EPSILON, 2 if kind is RandomisedResponse else size)


def data(mechanism: Mechanism, rows: int, rng: np.random.Generator) -> NDArray[Any]:
    """Readings off the middle, categories of unequal shares."""
    if mechanism.kind == "numeric":
        return rng.uniform(-1, np.linspace(-0.5, 1, mechanism.size), (rows, mechanism.size))
    shares = np.arange(mechanism.size, 0, -1.0)
    return rng.choice(mechanism.size, rows, p=shares / shares.sum())


def extremes(mechanism: Mechanism) -> NDArray[Any]:
    """The inputs between which likelihoods differ most: corners of the cube, and its middle; or all categories."""
    if mechanism.kind == "categorical":
        return np.arange(mechanism.size)
    corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * mechanism.size)).reshape(mechanism.size, -1).T
    return np.concatenate([corners, np.zeros((1, mechanism.size))])
