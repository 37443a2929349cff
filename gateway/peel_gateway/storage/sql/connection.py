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
    """One connection to a database, on all partitions or on one."""

    same_device: str
    """How tables of devices are joined."""

    @abc.abstractmethod
    def rows(self, query: str, values: Values = ()) -> list[Row]:
        """All rows that a query finds."""

    @abc.abstractmethod
    def stream(self, query: str, values: Values = ()) -> Iterator[Row]:
        """The same one by one, for more than the memory should hold."""

    def row(self, query: str, values: Values = ()) -> Row | None:
        """The first row, where there is one."""
        return next(iter(self.rows(query, values)), None)

    def value(self, query: str, values: Values = ()) -> int:
        """What a query that finds one integer finds."""
        ((value,),) = self.rows(query, values)
        return int(value)

    @abc.abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Insert new rows."""

    @abc.abstractmethod
    def put(self, table: str, keys: Columns, values: Columns) -> None:
        """Insert rows, or replace those that have the same keys; no key twice."""

    @abc.abstractmethod
    def add(self, table: str, keys: Columns, sums: Columns) -> None:
        """Insert rows, or add to those that have the same keys; no key twice."""

    @abc.abstractmethod
    def widen(self, table: str, keys: Columns, lowest: npt.NDArray[np.int64], highest: npt.NDArray[np.int64]) -> None:
        """Insert rows with columns `lowest` and `highest`, or widen those that have the same keys; no key twice."""

    @abc.abstractmethod
    def update(self, table: str, changes: str, where: str, values: Sequence[Any]) -> None:
        """Change the rows that a condition is true of."""

    @abc.abstractmethod
    def delete(self, table: str, where: str, values: Sequence[Any]) -> None:
        """Delete the rows that a condition is true of."""

    @abc.abstractmethod
    def asked(self, device: npt.NDArray[np.int64], begin: npt.NDArray[np.int64]) -> tuple[str, Mapping[str, Any]]:
        """A table of two columns, `device` and `begin`, to join with, and the values that it stands for; one at a time."""

    @abc.abstractmethod
    def continue_after(self, table: str, newest: int) -> None:
        """Let the next row of a table that numbers its rows have a larger number than this."""

    @abc.abstractmethod
    def scopes(self) -> Sequence[Connection]:
        """The same connection on each partition by itself: logs and what retention keeps are about one."""
