# SPDX-License-Identifier: MIT
"""What a board is: its MicroPython, its architecture, its room; and whether that fits what is to go onto it."""

from __future__ import annotations

from dataclasses import dataclass

from peel_tools.flashing.errors import FlashError
from peel_tools.flashing.remote import Remote

__all__ = ["BOARDS", "USUAL_MODULES", "Facts", "check_board", "probe"]

OLDEST = (1, 25)
NEWEST = (2, 0)
MPY_VERSION = 6

BOARDS = {"pico": "rp2", "pico_w": "rp2", "esp32": "esp32", "qemu": "qemu"}
"""Board to MicroPython's platform."""

USUAL_MODULES = {"pico": "armv6m", "pico_w": "armv6m", "esp32": "xtensawin", "qemu": "armv7m"}
"""Board to the native module that it most likely loads. Only the board itself knows: an ESP32-C3 is an esp32, too."""

# What sys.implementation._mpy >> 10 says, and the native module for it. An ARM core also runs what is made for a lesser one.
_ARCHITECTURES = {
    2: ("x64", "x64"),
    4: ("armv6m", "armv6m"),
    5: ("armv7m", "armv7m"),
    6: ("armv7em", "armv7m"),
    7: ("armv7emsp", "armv7emsp"),
    8: ("armv7emdp", "armv7emsp"),
    10: ("xtensawin", "xtensawin"),
    11: ("rv32imc", "rv32imc"),
}

_PROBE = """
import sys, os, json
def tried(name):
    try:
        return "file" if hasattr(__import__(name), "__file__") else "built in"
    except ImportError:
        return ""
    except ValueError as error:
        return "unfit: " + str(error)
try:
    room = os.statvfs("/")
    free = room[0] * room[3]
except OSError:
    free = -1
i = sys.implementation
print(json.dumps({"platform": sys.platform, "version": i.version[:3], "machine": getattr(i, "_machine", ""),
    "mpy": getattr(i, "_mpy", 0), "network": bool(tried("network")), "core": tried("peelcore"), "free": free}))
"""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the board says of itself."""

    platform: str
    version: tuple[int, ...]
    machine: str
    mpy: int
    network: bool
    core: str
    free: int

    @property
    def release(self) -> str:
        """MicroPython's version as text."""
        return ".".join(str(part) for part in self.version)

    @property
    def architecture(self) -> str:
        """The architecture of native code on this board, or "none"."""
        return _ARCHITECTURES.get(self.mpy >> 10, ("none", ""))[0]

    @property
    def module(self) -> str:
        """Which native module it loads, or "" for none: the pure-Python core is to run then."""
        return _ARCHITECTURES.get(self.mpy >> 10, ("", ""))[1]


def probe(remote: Remote) -> Facts:
    """Ask the board."""
    answer = remote.ask(_PROBE)
    return Facts(**{**answer, "version": tuple(answer["version"])})


def check_board(facts: Facts, board: str) -> None:
    """Raise FlashError unless the board is the one that was named and runs a MicroPython that will do."""
    if facts.platform != BOARDS[board]:
        raise FlashError(f"this is not a {board}: MicroPython's platform is {facts.platform!r} ({facts.machine})")
    if board == "pico_w" and not facts.network:
        raise FlashError(
            "this is a Pico without Wi-Fi, or has a Pico's firmware: use --board pico, or flash the Pico W's"
        )
    if not OLDEST <= facts.version[:2] < NEWEST:
        raise FlashError(
            f"MicroPython {facts.release} is on the board, and Peel needs {OLDEST[0]}.{OLDEST[1]} or newer (below {NEWEST[0]}.0): "
            "flash that first (peel firmware flash)"
        )
    if facts.core != "built in" and facts.module and facts.mpy & 0xFF != MPY_VERSION:
        raise FlashError(
            f"this MicroPython takes native modules of version {facts.mpy & 0xFF}, Peel's have version {MPY_VERSION}"
        )
    if facts.free < 0:
        raise FlashError("the board has no file system mounted: erase its flash, boot it and try again")
