# SPDX-License-Identifier: MIT
"""What can go wrong between this computer and a board."""

from __future__ import annotations

from peel_gateway.exits import Exit

__all__ = ["FlashError"]


class FlashError(Exception):
    """The board could not be flashed; the message says what is wrong and what to do next."""

    exit_code = Exit.MISSING
