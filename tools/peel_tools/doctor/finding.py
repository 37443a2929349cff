# SPDX-License-Identifier: MIT
"""One thing that the doctor has looked at."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BAD", "GOOD", "WARN", "Finding"]

GOOD, WARN, BAD = "good", "warn", "bad"


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, and what to do where it is not good."""

    about: str
    state: str
    said: str
    remedy: str = ""
