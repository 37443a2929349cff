# SPDX-License-Identifier: MIT
"""How fast a device's clock may run: enrolment, freshness and filing grant it the same."""

from __future__ import annotations

__all__ = ["RATE_SLACK", "RATE_SLACK_TENTHS"]

RATE_SLACK_TENTHS = 11
RATE_SLACK = RATE_SLACK_TENTHS / 10
"""A device's clock may run this much fast (RC oscillators in deep sleep are off by several per cent)."""
