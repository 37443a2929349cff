# SPDX-License-Identifier: MIT
"""The fleet's audit trail: who revoked which device, or took that back, and why. It is part of `devices.jsonl`, written with its effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["REVOKE", "UNREVOKE", "FleetAction"]

REVOKE = "revoke"
UNREVOKE = "unrevoke"


@dataclass(frozen=True, kw_only=True)
class FleetAction:
    """One entry."""

    time: str
    """ISO 8601 with its zone."""
    action: str
    device: str
    """As labels spell it."""
    who: str
    reason: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> FleetAction:
        """Read an entry; ValueError or KeyError where it is none."""
        if row["action"] not in (REVOKE, UNREVOKE):
            raise ValueError(f"audit: unknown action {row['action']!r}")
        return cls(**{name: str(row[name]) for name in ("time", "action", "device", "who", "reason")})
