# SPDX-License-Identifier: MIT
"""The audit trail: what operators did to the record, by whom and why. Entries are written with their effect, and never leave."""

from __future__ import annotations

import getpass
from dataclasses import dataclass

__all__ = ["PARDON", "AuditEntry", "check_reason", "operator_name"]

PARDON = "pardon"
_REASON_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One pardon, as the store keeps it."""

    device: int
    reason: str
    who: str
    time: float
    """Unix seconds."""
    arrival: int
    """The device's last event before it: what comes later is judged as if the device were new."""
    cause: int
    """The verdict that it takes back."""
    restored: bool
    """Whether what the device had counted before counts again; else it stays withdrawn for ever."""
    reports: int
    """How many reports those are."""
    last_exposure: int
    """Id of the newest exposure before it."""
    id: int = 0
    """Given by the store."""


def check_reason(text: str) -> str:
    """A reason, as it is kept; ValueError where there is none."""
    text = text.strip()
    if not text or len(text) > _REASON_CHARACTERS or not text.isprintable():
        raise ValueError(f"reason: say why, in 1 to {_REASON_CHARACTERS} printable characters")
    return text


def operator_name() -> str:
    """Who types, as far as the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
