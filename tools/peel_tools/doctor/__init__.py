# SPDX-License-Identifier: MIT
"""`peel doctor`: check a gateway's surroundings, say what is wrong and what to do."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BAD", "GOOD", "WARN", "Finding"]

GOOD, WARN, BAD = "good", "warn", "bad"


@dataclass(frozen=True)
class Finding:
    """The result of one check: its subject, its state, a sentence, and what to do unless it is good."""

    about: str
    state: str
    said: str
    remedy: str = ""
