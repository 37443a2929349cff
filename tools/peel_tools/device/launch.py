# SPDX-License-Identifier: MIT
"""Run the application like a board that has just been switched on. For CPython and MicroPython.

Usage: python launch.py, in the folder that is the device's flash. The process ends when it is killed, or when the application stops
with a fault that it cannot repair.
"""

import sys


def _add_micropython_names():
    """Give CPython those modules and functions of MicroPython that the application uses, and the core as a module."""
    import binascii
    import gc
    import struct
    import time

    from peel_core import peelcore

    sys.modules.update({"ustruct": struct, "ubinascii": binascii, "peelcore": peelcore})
    time.ticks_ms = lambda: time.monotonic_ns() // 1_000_000
    time.ticks_us = lambda: time.monotonic_ns() // 1000
    time.ticks_diff = lambda end, start: end - start
    time.sleep_ms = lambda milliseconds: time.sleep(milliseconds / 1000)
    gc.threshold = lambda size: None  # only small heaps need it


if sys.implementation.name == "cpython":
    _add_micropython_names()
else:
    import micropython_ssl

    sys.modules["ssl"] = micropython_ssl
sys.path[0] = ""  # the flash, where a board looks first, instead of the folder of this file

import main
from boards import host

main.FAULT_ROUNDS = 0  # there is no LED to blink with


def run() -> None:
    """Boot, and boot again after each deep sleep."""
    while True:
        try:
            main.main()
        except host.Woken:
            continue
        except KeyboardInterrupt:
            sys.exit(0)
        sys.exit(1)  # the application has printed why


run()
