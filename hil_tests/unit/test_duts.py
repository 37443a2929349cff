# SPDX-License-Identifier: MIT
"""The emulated boards match the table of boards."""

from __future__ import annotations

from peel_hil.duts import ALL_DUTS, DUTS
from peel_hil.emulators.images import IMAGES
from peel_tools.boards.table import ARCHITECTURES, BOARDS


def test_what_stands_in_for_a_board_exists() -> None:
    assert {board.emulator for board in BOARDS.values() if board.emulator} <= set(ALL_DUTS)


def test_every_native_module_runs_somewhere() -> None:
    run = {architecture for dut in ALL_DUTS.values() for architecture in dut.native_architectures}
    assert run == set(ARCHITECTURES)


def test_each_goes_by_its_name_and_has_an_image() -> None:
    assert all(dut.name == name and dut.processor for name, dut in ALL_DUTS.items())
    assert set(DUTS) <= set(IMAGES)
