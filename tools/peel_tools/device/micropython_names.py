# SPDX-License-Identifier: MIT
"""What MicroPython has and CPython has not, as far as the application uses it."""

from __future__ import annotations

import binascii
import gc
import struct
import sys
import time
from typing import Any

from peel_core import peelcore

__all__ = ["install"]


def install() -> None:
    """Give this process MicroPython's names, and the core as a module of that kind."""
    sys.modules |= {"ustruct": struct, "ubinascii": binascii, "peelcore": peelcore}
    clock: Any = time
    clock.ticks_ms = lambda: time.monotonic_ns() // 1_000_000
    clock.ticks_us = lambda: time.monotonic_ns() // 1000
    clock.ticks_diff = lambda end, start: end - start
    clock.sleep_ms = lambda milliseconds: time.sleep(milliseconds / 1000)
    collector: Any = gc
    collector.threshold = lambda size: None  # of small heaps
