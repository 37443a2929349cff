"""Find the core: the native module, or the pure-Python one where no native module can run.

    core = peel_load.load()

A native module for another architecture is a mistake made when the device was set up; it is reported, never papered over.
"""

import sys

# sys.implementation._mpy holds the .mpy version in its low byte, and from bit 10 the number of the native architecture.
_ARCHITECTURES = (
    "none",
    "x86",
    "x64",
    "armv6",
    "armv6m",
    "armv7m",
    "armv7em",
    "armv7emsp",
    "armv7emdp",
    "xtensa",
    "xtensawin",
    "rv32imc",
)


def architecture() -> str:
    """The architecture of native modules that this firmware loads, as in the names of Peel's downloads."""
    number = getattr(sys.implementation, "_mpy", 0) >> 10
    return _ARCHITECTURES[number] if number < len(_ARCHITECTURES) else "number %d" % number


def load():  # type: ignore[no-untyped-def]
    """Import and return peelcore, or peelcore_py when there is no peelcore."""
    try:
        import peelcore

        return peelcore
    except ImportError:
        pass
    except ValueError as error:
        raise ValueError(
            "peelcore.mpy does not fit this firmware (%s): it takes native modules for %s, .mpy version %d. "
            "Install Peel's peelcore.mpy for that architecture" % (error, architecture(), _version())
        )
    try:
        import peelcore_py

        return peelcore_py
    except ImportError:
        raise ImportError("no peelcore: install peelcore.mpy for %s, or peelcore_py.py" % architecture())


def _version() -> int:
    return getattr(sys.implementation, "_mpy", 0) & 0xFF
