# SPDX-License-Identifier: MIT
"""A state of a fleet's registry, as the database remembers the newest one that a gateway has used."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RegistryState"]


class RegistryState(NamedTuple):
    """A state of `devices.jsonl`. All zero before a gateway has used one."""

    revision: int = 0
    """How many times the file was changed, counted from 1."""
    mark: int = 0
    """32 random bits that belong to that change."""
    last_id: int = 0
    """The highest device id that was given out until then."""
