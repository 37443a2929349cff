# SPDX-License-Identifier: MIT
"""The interface between the shared SQL and a database.

Queries use the SQL that SQLite and PostgreSQL have in common. `{log} AS log` names a table: all of it, or the connection's partition.
Parameters are `?` or `:name`. Writes go to the connection's partition.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Columns", "Connection", "Row", "Values"]

Row = tuple[Any, ...]
Values = Sequence[Any] | Mapping[str, Any]
Columns = Mapping[str, npt.NDArray[Any] | Sequence[Any]]
"""Equally long columns by name."""


class Connection(abc.ABC):
    """A connection to a database, on all partitions or on one."""

    same_device: str
    """The join condition of two tables with a device column."""

    @abc.abstractmethod
    def rows(self, query: str, values: Values = ()) -> list[Row]:
        """Return all rows of a query."""

    @abc.abstractmethod
    def stream(self, query: str, values: Values = ()) -> Iterator[Row]:
        """Yield the rows of a query without holding them all in memory."""

    def row(self, query: str, values: Values = ()) -> Row | None:
        """Return a query's first row, or None."""
        return next(iter(self.rows(query, values)), None)

    def value(self, query: str, values: Values = ()) -> int:
        """Return a query's single integer."""
        ((value,),) = self.rows(query, values)
        return int(value)

    @abc.abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert new rows."""

    @abc.abstractmethod
    def put(self, table: str, keys: Columns, values: Columns) -> None:
        """Insert rows or replace those with the same keys. Keys are unique within a call."""

    @abc.abstractmethod
    def add(self, table: str, keys: Columns, sums: Columns) -> None:
        """Insert rows or add to those with the same keys. Keys are unique within a call."""

    @abc.abstractmethod
    def widen(self, table: str, keys: Columns, lowest: npt.NDArray[np.int64], highest: npt.NDArray[np.int64]) -> None:
        """Insert ranges `lowest` to `highest` or widen those with the same keys. Keys are unique within a call."""

    @abc.abstractmethod
    def update(self, table: str, changes: str, where: str, values: Sequence[Any]) -> None:
        """Update the rows that match a condition."""

    @abc.abstractmethod
    def delete(self, table: str, where: str, values: Sequence[Any]) -> None:
        """Delete the rows that match a condition."""

    @abc.abstractmethod
    def asked(self, device: npt.NDArray[np.int64], begin: npt.NDArray[np.int64]) -> tuple[str, Mapping[str, Any]]:
        """Return a table expression with columns `device` and `begin`, and its parameters. Only the last one is valid."""

    @abc.abstractmethod
    def continue_after(self, table: str, newest: int) -> None:
        """Make a table's next automatic id larger than `newest`."""

    @abc.abstractmethod
    def scopes(self) -> Sequence[Connection]:
        """Return a connection for each partition: logs and pruned sums belong to one partition."""
