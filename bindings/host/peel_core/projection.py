# SPDX-License-Identifier: MIT
"""The projection as matrices: Phi, its reconstruction Gamma, and the check that a seed is sound."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peel_core.batch import project_many

#: Seeds with a larger condition number of Phi W are refused; medians are 150 at width 48 and 900 at width 252.
MAX_CONDITION = 1e5
#: Honest codewords must decode with at most this residual (relative, float32).
MAX_HONEST_RESIDUAL = 1e-3


def matrix(seed: int, width: int) -> NDArray[np.int8]:
    """Return Phi, shape (width - 1, width), entries -1, 0, +1; every row sums to zero."""
    return np.ascontiguousarray(project_many(seed, width, np.arange(width)).T)


def _basis(width: int) -> NDArray[np.float64]:
    """Return W, Helmert's orthonormal basis of the complement of the all-ones vector, shape (width, width - 1)."""
    basis = np.zeros((width, width - 1))
    for column in range(width - 1):
        basis[: column + 1, column] = 1.0
        basis[column + 1, column] = -(column + 1.0)
        basis[:, column] /= np.sqrt((column + 1.0) * (column + 2.0))
    return basis


def reconstruction(seed: int, width: int) -> NDArray[np.float32]:
    """Return Gamma = W (Phi W)^-1, shape (width, width - 1).

    Raises numpy.linalg.LinAlgError if Phi W is singular.
    """
    basis = _basis(width)
    square = matrix(seed, width).astype(np.float64) @ basis
    return np.asarray(basis @ np.linalg.inv(square), dtype=np.float32)


def reconstruct(
    gamma: NDArray[np.float32], trits: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.float32]]:
    """Decode N reports with one matrix product (SPEC section 12).

    Parameters
    ----------
    gamma : float32, shape (width, width - 1)
    trits : float32, shape (N, width - 1)

    Returns
    -------
    index : int64, shape (N,)
        Position of the largest magnitude.
    sign : int8, shape (N,)
        +1 or -1 there.
    residual : float32, shape (N,)
        Distance to ``sign * (e_index - 1/width)``, relative to its norm. Rounding noise for honest reports.
    """
    return _nearest(trits @ gamma.T)


def _nearest(s: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int8], NDArray[np.float32]]:
    """Return the pattern nearest to each reconstructed vector, in the form of `reconstruct`. Overwrites s."""
    width = s.shape[1]
    rows = np.arange(len(s))
    index = np.argmax(np.abs(s), axis=1)
    sign = np.where(s[rows, index] < 0, -1, 1).astype(np.int8)
    s += (sign / np.float32(width)).astype(np.float32)[:, None]
    s[rows, index] -= sign
    residual = np.sqrt(np.einsum("ij,ij->i", s, s) / np.float32(1 - 1 / width))
    return index, sign, residual.astype(np.float32)


@dataclass(frozen=True)
class Soundness:
    """The result of decoding all codewords of a seed."""

    condition: float
    honest_residual: float
    tamper_residual: float
    decodes: bool

    @property
    def sound(self) -> bool:
        """Whether every codeword decodes to itself, with a margin between honest and altered residuals."""
        return (
            self.decodes
            and self.condition <= MAX_CONDITION
            and self.honest_residual <= MAX_HONEST_RESIDUAL
            and self.tamper_residual >= 10 * MAX_HONEST_RESIDUAL
        )


@functools.lru_cache(maxsize=64)
def soundness(seed: int, width: int, k: int) -> Soundness:
    """Check a seed by enumeration. Results are cached.

    Decodes each of the 2k codewords, and those of the column that says "no reading". Also finds the least residual after changing any
    one trit to either other value, in sixteen codewords spread over all of them.
    """
    phi = matrix(seed, width).astype(np.float64)
    condition = float(np.linalg.cond(phi @ _basis(width)))
    if not condition < 1e12:
        return Soundness(float("inf"), float("inf"), 0.0, False)
    gamma = reconstruction(seed, width)
    columns = min(k + 1, width)  # the first unused one says that there is no reading
    indices, minus = np.tile(np.arange(columns), 2), np.repeat([0, 1], columns)
    codewords = project_many(seed, width, indices, minus).astype(np.float32)
    index, sign, residual = reconstruct(gamma, codewords)
    decodes = bool(np.all(index == indices) and np.all(sign == 1 - 2 * minus))
    return Soundness(condition, float(residual.max()), _least_tamper_residual(gamma, codewords), decodes)


def _least_tamper_residual(gamma: NDArray[np.float32], codewords: NDArray[np.float32]) -> float:
    """Return the least residual after any single-trit change, over all positions and both new values, for a spread of codewords.

    A changed trit adds a multiple of its column of Gamma, so no matrix product is needed per change.
    """
    least = float("inf")
    for codeword in codewords[:: max(1, len(codewords) // 16)]:
        vector = gamma @ codeword
        for shift in (1, 2):
            change = (codeword + 1 + shift) % 3 - 1 - codeword
            _, _, residual = _nearest(vector + change[:, None] * gamma.T)
            least = min(least, float(residual.min()))
    return least


def search_seed(
    width: int,
    k: int,
    *,
    start: int = 1,
    attempts: int = 1000,
    progress: Callable[[int], None] | None = None,
) -> tuple[int, Soundness]:
    """Return the first sound seed from ``start`` on.

    Raises
    ------
    LookupError
        If none of ``attempts`` seeds is sound; a larger width helps.
    """
    for tried, seed in enumerate(range(start, start + attempts)):
        if progress:
            progress(tried)
        result = soundness(seed, width, k)
        if result.sound:
            return seed, result
    raise LookupError(f"no sound seed among {attempts} for width {width}; choose a larger width")
