# SPDX-License-Identifier: MIT
"""Columns as PostgreSQL's arrays: one parameter per column, whatever the number of rows."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from psycopg.abc import AdaptContext
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

__all__ = ["array_type", "register_integers"]

_INT8, _INT8_ARRAY = 20, 1016
_HEADER = struct.Struct(">iiIii")
_ITEM = np.dtype([("size", ">i4"), ("value", ">i8")])
_TYPES = {int: "bigint[]", bytes: "bytea[]", str: "text[]"}


class _IntsDumper(Dumper):
    """int64[R] in the binary format of bigint[]: a header, then each value with its size, without a Python object per value."""

    format = Format.BINARY
    oid = _INT8_ARRAY

    def __init__(self, cls: type, context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)

    def dump(self, obj: npt.NDArray[Any]) -> bytes:
        items = np.empty(len(obj), _ITEM)
        items["size"], items["value"] = 8, obj
        return _HEADER.pack(1, 0, _INT8, len(obj), 1) + items.tobytes()


def register_integers(adapters: AdaptersMap) -> None:
    """Make integers of one kind, bigint, however small: alone, in lists, in arrays.

    In lists they travel as text. With the binary form alone, the first list of a statement would choose the kind for all its lists, and
    the small keys of a sum its size.
    """
    for dumper in (Int8Dumper, Int8BinaryDumper):
        adapters.register_dumper(int, dumper)  # what is registered last is preferred
    adapters.register_dumper(np.ndarray, _IntsDumper)


def array_type(column: npt.NDArray[Any] | Sequence[Any]) -> str:
    """The type of a column that is not empty, of integers, bytes or text."""
    if isinstance(column, np.ndarray) and column.dtype != object:
        return _TYPES[int]
    return _TYPES[type(column[0])]
