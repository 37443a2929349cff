# SPDX-License-Identifier: MIT
"""Put MicroPython, the core, the application and a device's bundle onto a board, and verify them."""

from __future__ import annotations

from peel_gateway.exits import Exit

__all__ = ["FlashError"]


class FlashError(Exception):
    """A board could not be flashed. The message says what is wrong and what to do next."""

    exit_code = Exit.MISSING
