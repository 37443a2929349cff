# SPDX-License-Identifier: MIT
"""What answers are made of: plain tables, times that people can read, and the error of a question that has no answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

__all__ = ["ParameterError", "QueryError", "Table", "moment"]

Table = dict[str, Any]


class QueryError(ValueError):
    """A question that cannot be answered; the message names the parameter."""


class ParameterError(QueryError):
    """A parameter that no gateway would take: unknown, missing, malformed or out of bounds."""


def moment(seconds: float) -> str:
    """Unix seconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
