# SPDX-License-Identifier: MIT
"""Devices under test: emulated boards behind one interface.

with open_dut("pico", folder) as dut:
    dut.exec("print(6 * 7)")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from peel_hil.duts.base import Dut, DutError, Endpoint
from peel_hil.duts.pico import PicoDut
from peel_hil.duts.qemu import M4Dut, MicrobitDut, Mps2Dut, Rv32Dut
from peel_hil.duts.unix import UnixDut

__all__ = ["DUTS", "Dut", "DutError", "Endpoint", "open_dut"]

DUTS: Mapping[str, Callable[..., Dut]] = {
    "mps2": Mps2Dut,
    "m4": M4Dut,
    "microbit": MicrobitDut,
    "rv32": Rv32Dut,
    "pico": PicoDut,
    "unix": UnixDut,
}


def open_dut(board: str, folder: Path, link: Endpoint | None = None) -> Dut:
    """Build the board's firmware if need be, and start the board with its state (flash, files) in a folder."""
    dut = DUTS[board](folder, link)
    dut.start()
    return dut
