# SPDX-License-Identifier: MIT
"""Runs the application as a board does that has just got power. For CPython and MicroPython; the working folder is the flash.

Usage: python launch.py. The process ends when it is killed, or with the application: by a fault that only a person can help.
"""

import sys

if sys.implementation.name == "cpython":
    from peel_tools.device import micropython_names

    micropython_names.install()
else:
    import micropython_ssl

    sys.modules["ssl"] = micropython_ssl
sys.path[0] = ""  # where a board looks first; here the folder of this file

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
        sys.exit(1)  # it has said why


run()
