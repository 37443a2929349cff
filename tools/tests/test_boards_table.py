# SPDX-License-Identifier: MIT
"""The table of boards is consistent, matches the firmware, and is the only such list."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from peel_tools.boards.firmware import RECIPES, build_firmware
from peel_tools.boards.natmod import build_natmod
from peel_tools.boards.table import ARCHITECTURES, BOARDS, Board, UnknownBoardError, architecture_of, find_board

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "tools" / "peel_tools" / "boards" / "table.py"
EACH_BOARD = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)


@EACH_BOARD
def test_a_boards_parts_are_there(board: Board) -> None:
    assert {chip.architecture for chip in board.chips} <= set(ARCHITECTURES)
    assert len({type(chip.loader) for chip in board.chips}) == 1
    assert board.name in board.files
    for name in board.files:
        assert (ROOT / "firmware" / "boards" / f"{name}.py").is_file()


@EACH_BOARD
def test_the_boards_own_file_says_its_name(board: Board) -> None:
    module = ast.parse((ROOT / "firmware" / "boards" / f"{board.name}.py").read_text())
    (made,) = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "Board"]
    said = [
        ast.literal_eval(line.value)
        for line in made.body
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "name"
    ]
    assert said == [board.name]


def test_the_device_knows_the_same_boards_and_modules() -> None:
    assert set(import_module("peel_device.config").BOARDS) == set(BOARDS)
    modules = import_module("peel_load")._MODULES
    found = [architecture_of(number << 10 | 6) for number in range(len(modules) + 8)]
    assert [row.name if row else "" for row in found] == [*modules, *[""] * 8]


def test_images_are_for_known_boards() -> None:
    assert set(RECIPES) <= set(BOARDS)


def test_the_unknown_is_refused_with_what_is_known() -> None:
    with pytest.raises(UnknownBoardError, match=r"unknown board 'toaster'; known: pico, pico_w, esp32"):
        find_board("toaster")
    with pytest.raises(UnknownBoardError, match=r"unknown architecture 'z80'; known: armv6m, armv7m"):
        build_natmod("z80")
    with pytest.raises(UnknownBoardError, match=r"'esp32': no recipe for this image; known: pico$"):
        build_firmware("esp32")


def test_nobody_keeps_another_list() -> None:
    """A module that names two of them has a table of its own, or a branch that belongs into the table."""
    sources = [*(ROOT / "tools" / "peel_tools").rglob("*.py"), *(ROOT / "gateway" / "peel_gateway").rglob("*.py")]
    for path in set(sources) - {TABLE}:
        literals = set(re.findall(r"""["'](\w+)["']""", path.read_text()))
        assert len(literals & set(BOARDS)) < 2 and len(literals & set(ARCHITECTURES)) < 2, path
