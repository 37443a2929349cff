# SPDX-License-Identifier: MIT
"""The audit trail: what operators did to the record, by whom and why. Entries are written with their effect, and never leave."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PARDON", "AuditEntry", "ReasonError", "check_reason"]

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


class ReasonError(ValueError):
    """Not a reason; the message says what is."""


def check_reason(text: str) -> str:
    """A reason, as it is kept; ReasonError where there is none."""
    text = text.strip()
    if not text or len(text) > _REASON_CHARACTERS or not text.isprintable():
        raise ReasonError(f"reason: say why, in 1 to {_REASON_CHARACTERS} printable characters")
    return text
