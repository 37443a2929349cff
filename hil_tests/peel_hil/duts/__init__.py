# SPDX-License-Identifier: MIT
"""Devices under test: emulated boards behind one interface.

with open_dut("pico", folder) as dut:
    dut.exec("print(6 * 7)")
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from peel_hil.duts.base import Dut, DutError, Endpoint
from peel_hil.duts.esp32 import Esp32Dut
from peel_hil.duts.pico import PicoDut
from peel_hil.duts.qemu import M4Dut, MicrobitDut, Mps2Dut, Rv32Dut
from peel_hil.duts.unix import UnixDut

__all__ = ["ALL_DUTS", "DUTS", "Dut", "DutError", "Endpoint", "open_dut"]

DUTS: Mapping[str, type[Dut]] = {dut.name: dut for dut in (Mps2Dut, M4Dut, MicrobitDut, Rv32Dut, PicoDut, UnixDut)}
"""The boards that run the firmware's image, by name."""

ALL_DUTS: Mapping[str, type[Dut]] = {**DUTS, Esp32Dut.name: Esp32Dut}
"""All boards: also the one that only loads native modules. It has no user C module, no timers, no network."""


def open_dut(board: str, folder: Path, link: Endpoint | None = None) -> Dut:
    """Build the board's firmware if necessary, and start the board with its state (flash, files) in a folder."""
    dut = DUTS[board](folder, link)
    dut.start()
    return dut
