# SPDX-License-Identifier: MIT
"""Databases changed behind the gateway's back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from peel_gateway.storage.records import RECORD


def change_log(path: Path, change: Callable[[Any], Any]) -> None:
    """Put other events in the place of those that the log has; they must stay as many, or the log says so itself."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT last, data FROM log ORDER BY last").fetchall()
        ends = np.cumsum([len(data) // RECORD.itemsize for _, data in rows])
        events = np.frombuffer(b"".join(data for _, data in rows), RECORD).copy()
        events = change(events)
        for (last, _), part in zip(rows, np.split(events, ends[:-1]), strict=True):
            connection.execute("UPDATE log SET data = ? WHERE last = ?", (part.tobytes(), last))
    connection.close()


def change_sql(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
