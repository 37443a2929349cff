# SPDX-License-Identifier: MIT
"""What answers are made of: plain tables, and times that people can read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

__all__ = ["Table", "moment"]

Table = dict[str, Any]


def moment(seconds: float) -> str:
    """Unix seconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
