# SPDX-License-Identifier: MIT
"""What can be said about a report: one verdict each, that of the first layer that objects.

The numbers are stored in the database and never change meaning.
"""

from __future__ import annotations

import enum

__all__ = ["BLAMED", "LOGGED", "NAMES", "NETWORK", "Verdict"]


class Verdict(enum.IntEnum):
    """The verdicts in the order of the layers that give them."""

    ACCEPTED = 0
    """Passed every layer and counts."""
    REDELIVERED = 1
    """The same bytes again: harmless, counted once."""
    MALFORMED = 2
    """Not a frame: wrong version, flags, mechanism, length or number."""
    DEVICE = 3
    """Names a device that is not registered."""
    PROFILE = 4
    """Names an unknown profile, or one that is not this device's."""
    REVOKED = 5
    """Names a device that the operator has revoked."""
    UNSEALED = 6
    """Carries no seal where one is needed."""
    SEAL = 7
    """The seal does not fit: forged or altered."""
    STALE = 8
    """Its number is below the retention's low-water mark: nobody can tell any more whether it is new."""
    REUSED = 9
    """Another body under a number that was used before."""
    FLOOD = 10
    """Its number is ahead of what quota and time allow."""
    RULE = 11
    """Tossed with another budget than the profile's."""
    SUPPORT = 12
    """A codeword for another attribute than the number assigns, or for none."""
    STRUCTURE = 13
    """Not a codeword of the profile's projection."""
    STATISTICS = 14
    """Tipped the balance: the device's coin is no honest coin."""
    WITHDRAWN = 15
    """Nothing wrong with it, but its device has been exposed."""

    @property
    def label(self) -> str:
        """The lower-case name used in listings, JSON and metrics."""
        return self.name.lower()

    @classmethod
    def parse(cls, label: str) -> Verdict:
        """Return the verdict with this label; ``ValueError`` names the ones there are."""
        try:
            return cls[label.upper()]
        except KeyError:
            known = ", ".join(verdict.label for verdict in cls)
            raise ValueError(f"unknown verdict {label!r}; known are: {known}") from None


NAMES: tuple[str, ...] = tuple(verdict.label for verdict in Verdict)

NETWORK = frozenset(
    {
        Verdict.MALFORMED,
        Verdict.DEVICE,
        Verdict.PROFILE,
        Verdict.REVOKED,
        Verdict.UNSEALED,
        Verdict.SEAL,
        Verdict.STALE,
    }
)
"""Quarantined, and nobody is blamed: no seal vouches for the report, or (stale) it may well be honest."""

BLAMED = frozenset(
    {Verdict.REUSED, Verdict.FLOOD, Verdict.RULE, Verdict.SUPPORT, Verdict.STRUCTURE, Verdict.STATISTICS}
)
"""Only the holder of the device's key can have caused these: they expose the device."""

LOGGED = frozenset(
    {
        Verdict.ACCEPTED,
        Verdict.RULE,
        Verdict.SUPPORT,
        Verdict.STRUCTURE,
        Verdict.STATISTICS,
        Verdict.WITHDRAWN,
    }
)
"""Reports with one of these verdicts use up their number and have a row in the log."""
