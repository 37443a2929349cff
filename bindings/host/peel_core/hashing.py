# SPDX-License-Identifier: MIT
"""Local hashing on arrays: hash categories, and count the reports that support each category.

A number assigns one of ``k^m`` hashes, ``a``, where ``m`` is the smallest with ``k^m >= domain``. With the base-k digits of a
category v (from the least significant) and of the hash (from the most significant), ``h_a(v) = sum_i a_i v_i mod k`` (SPEC section
6.3). A report consists of ``(a, symbol)`` and supports every category with ``h_a(v) = symbol``. Reports are counted by *cell*,
``a * k + symbol``. An estimate needs only the counts per cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peel_core.hash_family import digits

__all__ = ["hashed", "supports"]


def hashed(hashes: ArrayLike, categories: ArrayLike, k: int, domain: int) -> NDArray[np.int64]:
    """Return the symbols that categories are hashed into, in the shape that the two arguments broadcast to."""
    a, v = np.asarray(hashes, np.int64), np.asarray(categories, np.int64)
    last = digits(k, domain) - 1
    total = np.zeros(np.broadcast_shapes(a.shape, v.shape), np.int64)
    for i in range(last + 1):
        total += (a // k ** (last - i) % k) * (v // k**i % k)
    return total % k


def supports(cells: ArrayLike, counts: ArrayLike, k: int, domain: int) -> NDArray[np.float64]:
    """Return the number of reports that support each category.

    Parameters
    ----------
    cells : int, shape (C,)
        ``hash * k + symbol``; a cell may appear more than once.
    counts : shape (C,)
        The reports, or their weights, in each cell.

    Returns
    -------
    float64, shape (domain,)
        Whole counts are exact up to rounding: below 1e-3 of a report for 10^9 of them.

    Notes
    -----
    With w a k-th root of unity, a report supports v as often as ``1/k sum_c w^(c (h_a(v) - s))`` says, and ``c h_a(v)`` is the form of
    the hash ``c a`` (its digits times c, mod k). So all reports add up to one table over hashes, F[c a] += n w^(-c s). Its transform
    over each digit gives all categories at once: k^m numbers instead of one sum per category. c and -c are conjugate, which halves
    the work.
    """
    places, numbers = np.asarray(cells, np.int64), np.asarray(counts, np.float64)
    m = digits(k, domain)
    powers = k ** np.arange(m - 1, -1, -1)
    hash_digits = places[:, None] // k // powers % k
    symbol = places % k
    table = np.zeros(k**m, np.complex128)
    half = range(1, k // 2 + 1)
    for c in half:
        np.add.at(table, c * hash_digits % k @ powers, numbers * np.exp(2j * np.pi * c * symbol / k))
    spectrum = np.fft.fftn(table.reshape((k,) * m)).real.ravel(order="F")[:domain]
    return np.asarray((numbers.sum() + (2 if k > 2 else 1) * spectrum) / k)
