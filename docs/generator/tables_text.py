# SPDX-License-Identifier: MIT
"""The project's registries as Markdown tables: boards, verdicts and device states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from peel_gateway.model.standing import Standing
from peel_gateway.model.verdict import LAYERS, Blame, Verdict
from peel_hil.duts import ALL_DUTS
from peel_tools.boards.table import ARCHITECTURES, BOARDS, Board

__all__ = ["architecture_table", "board_table", "state_table", "verdict_table"]

_BLAMED = {Blame.NOBODY: "", Blame.NETWORK: "nobody", Blame.DEVICE: "the device", Blame.EARLIER: "the device, earlier"}


def board_table() -> str:
    """Return one row per board: description, how to flash MicroPython, and its native modules."""
    return _table(
        ["board", "what", "flashed by", "native module"],
        (
            [
                f"`{board.name}`",
                board.title,
                _flashing(board),
                ", ".join(dict.fromkeys(f"`{chip.architecture}` ({chip.name})" for chip in board.chips)),
            ]
            for board in BOARDS.values()
        ),
    )


def _flashing(board: Board) -> str:
    if board.boot_drives:
        return "a UF2 file, copied to its boot drive"
    if board.in_place:
        return "`peel device run`"
    return "esptool, over its serial port" if board.serial_loaders else "the emulator"


def architecture_table() -> str:
    """Return one row per kind of native code: its processors, and where its module has run."""
    rows = []
    for row in ARCHITECTURES.values():
        run = dict.fromkeys(dut.processor for dut in ALL_DUTS.values() if row.name in dut.native_architectures)
        rows.append([f"`{row.name}`", row.processors, ", ".join(run)])
    return _table(["architecture", "for", "emulated on"], rows)


def verdict_table() -> str:
    """Return one row per verdict in the order of the layers: meaning, whether the report is in the log, and the blame."""
    rows = [
        [
            layer.label if layer else "none",
            f"`{verdict.label}`",
            verdict.sentence,
            "yes" if verdict.logged else "no",
            _BLAMED[verdict.blame],
        ]
        for layer in (*LAYERS, None)
        for verdict in Verdict
        if verdict.layer is layer
    ]
    return _table(["layer", "verdict", "meaning", "in the log", "blames"], rows)


def state_table() -> str:
    """Return one row per state of a device, in the order of the checks."""
    return _table(["state", "meaning"], ([f"`{standing.label}`", standing.sentence] for standing in Standing))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (f"| {' | '.join(line)} |\n" for line in (header, *rows))
    return next(lines) + "|---" * len(header) + "|\n" + "".join(lines)
