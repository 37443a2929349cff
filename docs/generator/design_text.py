# SPDX-License-Identifier: MIT
"""A table of docs/how-it-works.md that is computed from fixed seeds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from peel_core import projection

__all__ = ["projection_table"]

_SMALLEST_WIDTH = 48
_NOISE = 1e-4


def projection_table() -> str:
    """Return size and honest residual of the PEEL paper's projection beside ours."""
    lines = [
        "| attributes | rounded: bits | honest residual | ternary: bits | honest residual | one trit changed |",
        "|---|---|---|---|---|---|",
    ]
    for k in (16, 64, 252):
        width = max(k, _SMALLEST_WIDTH)
        _, sound = projection.search_seed(width, k)
        assert sound.honest_residual < _NOISE
        cells = [
            f"{k}",
            f"{(k - 1) * _bits(k):,}",
            f"{np.median([_rounded_residual(seed, k) for seed in range(9)]):.1f}",
            f"{8 * math.ceil((width - 1) / 5)}",
            f"below {_NOISE:.4f}",
            f"{math.floor(10 * sound.tamper_residual) / 10} or more",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _bits(k: int) -> int:
    """Return the paper's bits per coordinate."""
    return math.ceil(math.log2(k - 1))


def _rounded_residual(seed: int, k: int) -> float:
    """Return the largest relative error of an honest report when each coordinate is rounded to the paper's bits.

    Phi has independent entries -1, 0, +1 and is not balanced; the range that is divided into steps is that of the
    codewords, which is the best that a device could know.
    """
    rng = np.random.default_rng(seed)
    phi = rng.integers(-1, 2, (k - 1, k)).astype(np.float64)
    basis = np.linalg.qr(np.eye(k)[:, 1:] - 1 / k)[0]  # of the complement of the all-ones vector
    normalised = (k * np.eye(k) - 1) / math.sqrt(k - 1)
    codewords = phi @ normalised
    step = 2 * np.abs(codewords).max() / (2 ** _bits(k) - 1)
    rounded = np.round(codewords / step) * step
    reconstructed: NDArray[np.float64] = basis @ np.linalg.solve(phi @ basis, rounded)
    return float((np.linalg.norm(reconstructed - normalised, axis=0) / math.sqrt(k)).max())
