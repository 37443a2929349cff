# SPDX-License-Identifier: MIT
"""Rows that are the same in several columns, found together; events up to a mark of their device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["add_up", "distinct", "extremes", "rows_where", "unique_rows", "up_to"]

Ints = npt.NDArray[np.int64]

_LARGEST_CODE = 2**62
_DENSE = 16
"""Up to so many codes per row a table of them costs less than sorting the rows."""


def rows_where(mask: npt.NDArray[np.bool_]) -> Ints:
    """Return the rows where a mask is True: `np.flatnonzero` for arrays of one dimension, in a third of its time."""
    return mask.nonzero()[0]


def distinct(values: Ints) -> Ints:
    """Return the distinct values of a column without negative ones, ascending."""
    if not len(values) or int(values.max()) >= _DENSE * len(values):
        return np.unique(values)
    return rows_where(np.bincount(values) > 0)


def unique_rows(*columns: Ints) -> tuple[list[Ints], Ints]:
    """Distinct rows of equally long columns, ascending, and where each row is among them."""
    code = _coded(columns)
    if len(code) and code.max() < _DENSE * len(code):
        rows, where = _ranked(code)
    else:
        _, rows, where = np.unique(code, return_index=True, return_inverse=True)
    return [column[rows] for column in columns], where.reshape(-1)


def _ranked(code: Ints) -> tuple[Ints, Ints]:
    """A row of each code, by code, and the rank of each row's code: without sorting, in a table of all codes."""
    row = np.full(int(code.max()) + 1, -1, np.int64)
    row[code] = np.arange(len(code))
    present = row >= 0
    return row[present], (np.cumsum(present) - 1)[code]


def add_up(keys: Sequence[Ints], values: Sequence[Ints]) -> tuple[list[Ints], list[Ints]]:
    """Distinct rows of the key columns, and the sums of the value columns over each."""
    unique, where = unique_rows(*keys)
    sums = [np.zeros(len(unique[0]), np.int64) for _ in values]
    for total, column in zip(sums, values, strict=True):
        np.add.at(total, where, column)
    return unique, sums


def extremes(keys: Sequence[Ints], lowest: Ints, highest: Ints) -> tuple[list[Ints], Ints, Ints]:
    """Distinct rows of the key columns, with the smallest of `lowest` and the largest of `highest` over each."""
    unique, where = unique_rows(*keys)
    low, high = np.full(len(unique[0]), np.iinfo(np.int64).max), np.full(len(unique[0]), np.iinfo(np.int64).min)
    np.minimum.at(low, where, lowest)
    np.maximum.at(high, where, highest)
    return unique, low, high


def up_to(devices: Ints, marks: Ints, device: npt.NDArray[Any], arrival: Ints) -> npt.NDArray[np.bool_]:
    """Return True for each event that is not after the mark of its device; `devices` are sorted, other devices have no mark."""
    if not len(devices):
        return np.zeros(len(device), np.bool_)
    place = np.minimum(np.searchsorted(devices, device), len(devices) - 1)
    return np.asarray((devices[place] == device) & (arrival <= marks[place]))


def _coded(columns: Sequence[Ints]) -> Ints:
    """One number per row, in the order of the rows: digits of a number whose places are as wide as the columns' values."""
    if not len(columns[0]):
        return np.zeros(0, np.int64)
    digits = [column.astype(np.int64, copy=False) - int(column.min()) for column in columns]
    widths = [int(digit.max()) + 1 for digit in digits]
    if math.prod(widths) > _LARGEST_CODE:  # then their ranks: at most as many as there are rows
        digits = [np.unique(column, return_inverse=True)[1].reshape(-1).astype(np.int64) for column in columns]
        widths = [int(digit.max()) + 1 for digit in digits]
    code = np.zeros(len(columns[0]), np.int64)
    for digit, width in zip(digits, widths, strict=True):
        if width > 1:
            code *= width
            code += digit
    return code
