# SPDX-License-Identifier: MIT
"""Boards and kinds of native code as tables."""

from __future__ import annotations

from peel_hil.duts import ALL_DUTS
from peel_tools.boards.table import ARCHITECTURES, BOARDS, Board

__all__ = ["architecture_table", "board_table"]


def board_table() -> str:
    """One line per board: what it is, how MicroPython gets onto it, which native module it loads."""
    lines = ["| board | what | flashed by | native module |", "|---|---|---|---|"]
    for board in BOARDS.values():
        modules = dict.fromkeys(f"`{chip.architecture}` ({chip.name})" for chip in board.chips)
        lines.append(f"| `{board.name}` | {board.title} | {_flashing(board)} | {', '.join(modules)} |")
    return "\n".join(lines) + "\n"


def _flashing(board: Board) -> str:
    if board.boot_drives:
        return "a UF2 file, copied to its boot drive"
    if board.in_place:
        return "`peel device run`"
    return "esptool, over its serial port" if board.serial_loaders else "the emulator"


def architecture_table() -> str:
    """One line per kind of native code: whose it is, and where its module has run."""
    lines = ["| architecture | for | emulated on |", "|---|---|---|"]
    for row in ARCHITECTURES.values():
        run = dict.fromkeys(dut.processor for dut in ALL_DUTS.values() if row.name in dut.native_architectures)
        lines.append(f"| `{row.name}` | {row.processors} | {', '.join(run)} |")
    return "\n".join(lines) + "\n"
