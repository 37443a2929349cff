# SPDX-License-Identifier: MIT
"""The types that all queries share: tables, times as text, and errors."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

__all__ = ["ParameterError", "QueryError", "Table", "moment"]

Table = dict[str, Any]


class QueryError(ValueError):
    """A query that cannot be answered; the message names the parameter."""


class ParameterError(QueryError):
    """A parameter that is unknown, missing, malformed or out of bounds for every fleet."""


def moment(seconds: float) -> str:
    """Return Unix seconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
