# SPDX-License-Identifier: MIT
"""Find the core: the native module, or the pure-Python one where no native module can run.

    core = peel_load.load()

A native module for another architecture is an installation error and is reported as such.
"""

import sys

# The module to install, by the number in sys.implementation._mpy from bit 10 on: none, x86, x64, armv6, armv6m, armv7m, armv7em,
# armv7emsp, armv7emdp, xtensa, xtensawin, rv32imc. If there is no module for one of these, the entry is a compatible one or "".
_MODULES = ("", "", "x64", "", "armv6m", "armv7m", "armv7m", "armv7emsp", "armv7emsp", "", "xtensawin", "rv32imc")


def architecture() -> str:
    """Return the architecture of the native module to install, or "" if this firmware can load no module of ours."""
    number = getattr(sys.implementation, "_mpy", 0) >> 10
    return _MODULES[number] if number < len(_MODULES) else ""


def load(native: str = "peelcore", fallback: str = "peelcore_py"):  # type: ignore[no-untyped-def]  # a module
    """Import and return the native module, or the fallback if it is not installed."""
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
