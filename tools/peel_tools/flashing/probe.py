# SPDX-License-Identifier: MIT
"""What a board is: its MicroPython, its architecture, its room; and whether that fits what is to go onto it."""

from __future__ import annotations

from dataclasses import dataclass

from peel_tools.boards.table import BOARDS, Board, architecture_of
from peel_tools.flashing.errors import FlashError
from peel_tools.flashing.remote import Remote

__all__ = ["Facts", "check_board", "probe"]

OLDEST = (1, 25)
NEWEST = (2, 0)
MPY_VERSION = 6

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
        found = architecture_of(self.mpy)
        return found.cores[self.mpy >> 10] if found else "none"

    @property
    def module(self) -> str:
        """Which native module it loads, or "" for none: the pure-Python core is to run then."""
        found = architecture_of(self.mpy)
        return found.name if found else ""


def probe(remote: Remote) -> Facts:
    """Ask the board."""
    answer = remote.ask(_PROBE)
    return Facts(**{**answer, "version": tuple(answer["version"])})


def check_board(facts: Facts, board: Board) -> None:
    """Raise FlashError unless the board is the one that was named and runs a MicroPython that will do."""
    if facts.platform != board.platform:
        raise FlashError(f"this is not a {board.name}: MicroPython's platform is {facts.platform!r} ({facts.machine})")
    if board.network and not facts.network:
        raise FlashError(
            f"its MicroPython knows no network: this is no {board.title}, or it runs another board's firmware. Flash the {board.title}'s"
            + "".join(f", or use --board {other.name}" for other in _without_network(board))
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


def _without_network(board: Board) -> list[Board]:
    """Boards that are like this one but for the network."""
    return [other for other in BOARDS.values() if other.platform == board.platform and not other.network]
