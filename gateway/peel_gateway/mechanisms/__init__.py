# SPDX-License-Identifier: MIT
"""One object per mechanism: the reports it may send, the bets on its devices, the estimates from its reports.

`mechanism_of(profile)` finds it; a profile whose mechanism has no object here is refused by name.
"""

from __future__ import annotations

from peel_core import Profile
from peel_gateway.mechanisms.base import Mechanism
from peel_gateway.mechanisms.categorical import HASHING, KRR
from peel_gateway.mechanisms.harmony import HARMONY

__all__ = ["MECHANISMS", "Mechanism", "mechanism_of"]

MECHANISMS: dict[str, Mechanism] = {mechanism.name: mechanism for mechanism in (HARMONY, KRR, HASHING)}


def mechanism_of(profile: Profile) -> Mechanism:
    """The mechanism of a profile; ``ValueError`` names the profile and the mechanisms there are."""
    try:
        return MECHANISMS[profile.mechanism]
    except KeyError:
        known = ", ".join(MECHANISMS)
        raise ValueError(
            f"profile {profile.name}: the gateway has no mechanism {profile.mechanism!r}; it has: {known}"
        ) from None
