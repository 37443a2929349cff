# SPDX-License-Identifier: MIT
"""Assignment of table rows to devices. A fleet may have a million devices; only recently active ones have a row in memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_gateway.model.tables import Rows, Slots

__all__ = ["RowCache"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class RowCache:
    """Rows of tables, assigned to slots and freed again.

    Parameters
    ----------
    slots : int
        How many there are.
    rows : int
        How many rows there are at first; `assign` adds more when all are taken.
    """

    def __init__(self, slots: int, rows: int) -> None:
        self._row = np.full(slots, -1, np.int32)
        self.slot = Slots(np.full(rows, -1, np.int64))
        """The slot in each row, -1 for a free row."""
        self.taken = 0

    def absent(self, slots: Slots) -> Bools:
        """Return True for each slot without a row."""
        return np.asarray(self._row[slots] < 0)

    def rows(self, slots: Slots) -> Rows:
        """The rows of slots, each of which must have one."""
        rows = Rows(self._row[slots].astype(np.int64))
        if rows.min(initial=0) < 0:
            raise LookupError("a device that speaks is not in memory")
        return rows

    def assign(self, slots: Slots) -> Rows:
        """Give rows to slots that have none; return them. What was in these rows before is not theirs."""
        lacking = len(slots) - (len(self.slot) - self.taken)
        if lacking > 0:
            self.slot = Slots(np.append(self.slot, np.full(max(lacking, len(self.slot)), -1, np.int64)))
        rows = Rows(np.flatnonzero(self.slot < 0)[: len(slots)])
        self.slot[rows], self._row[slots] = slots, rows
        self.taken += len(slots)
        return rows

    def evict(self, most: int, age: Ints, may_leave: Bools) -> None:
        """If more than `most` rows are taken, free those that may leave, lowest ages first, until half of `most` are taken."""
        if self.taken <= most:
            return
        leaving = np.flatnonzero((self.slot >= 0) & may_leave)
        leaving = leaving[np.argsort(age[leaving], kind="stable")[: self.taken - most // 2]]
        self._row[self.slot[leaving]] = -1
        self.slot[leaving] = -1
        self.taken -= len(leaving)
