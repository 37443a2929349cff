# SPDX-License-Identifier: MIT
"""Find the core: the native module, or the pure-Python one where no native module can run.

    core = peel_load.load()

A native module for another architecture is a mistake made when the device was set up; it is reported, never papered over.
"""

import sys

# The module to install, by the number that sys.implementation._mpy has from bit 10 on: none, x86, x64, armv6, armv6m, armv7m, armv7em,
# armv7emsp, armv7emdp, xtensa, xtensawin, rv32imc. Where there is no module for exactly that one, the next that fits.
_MODULES = ("", "", "x64", "", "armv6m", "armv7m", "armv7m", "armv7emsp", "armv7emsp", "", "xtensawin", "rv32imc")


def architecture() -> str:
    """The architecture to install the native module for, or "" when this firmware loads none of ours."""
    number = getattr(sys.implementation, "_mpy", 0) >> 10
    return _MODULES[number] if number < len(_MODULES) else ""


def load(native: str = "peelcore", fallback: str = "peelcore_py"):  # type: ignore[no-untyped-def]  # a module
    """Import and return the native module, or the fallback when there is none."""
    try:
        return __import__(native)
    except ImportError:
        pass
    except ValueError as error:
        raise ValueError("%s.mpy does not fit this firmware (%s): %s" % (native, error, _advice(fallback)))
    try:
        return __import__(fallback)
    except ImportError:
        raise ImportError("no module %s: %s" % (native, _advice(fallback)))


def _advice(fallback: str) -> str:
    name = architecture()
    return (
        "install the one for " + name
        if name
        else "install %s.py instead, this firmware loads no native modules" % fallback
    )
