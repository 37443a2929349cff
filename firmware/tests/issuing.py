# SPDX-License-Identifier: MIT
"""Records of issued bundles, for tests of the numbers that a device takes."""

from __future__ import annotations

from datetime import UTC, datetime

from peel_device.ledger import NUMBER_MAX
from peel_gateway.fleet.folder import IssuedBundle

ENROLLED = datetime(2026, 1, 1, tzinfo=UTC)


def issued(first_number: int, made: datetime, quota: int, period: int) -> IssuedBundle:
    """Return the record of a bundle without a lifetime, made at the given time."""
    return IssuedBundle(
        first_number=first_number,
        last_number=NUMBER_MAX,
        salt=bytes(16),
        made=made.isoformat(),
        profile="p",
        profile_id="00000001",
        quota=quota,
        period=period,
    )
