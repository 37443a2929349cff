# SPDX-License-Identifier: MIT
"""One fixture, `dut`: the firmware on an emulated board. `--board` chooses the boards, "all" by default.

A board whose tools are missing is skipped with the reason; with CI=true that is a failure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from peel_hil.duts import DUTS, Dut, Endpoint, open_dut
from peel_tools.boards.errors import MissingToolError

OpenDut = Callable[..., Dut]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--board",
        action="append",
        choices=[*DUTS, "esp32", "all"],
        help="run the hardware-in-the-loop tests on this emulated board (may be given more than once)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "esp32: a test of the ESP32's code, which runs with --board esp32")
    config.addinivalue_line(
        "markers", "boards(*names): the emulated boards that a test with the fixture `dut` can run on"
    )


def _chosen(config: pytest.Config) -> set[str]:
    chosen = config.getoption("--board") or ["all"]
    return {*DUTS, "esp32"} if "all" in chosen else set(chosen)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "board" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("boards")
    able = marker.args if marker else tuple(DUTS)
    metafunc.parametrize("board", [name for name in able if name in _chosen(metafunc.config)], scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "esp32" not in _chosen(config):
        skip = pytest.mark.skip(reason="not chosen with --board")
        for item in items:
            if item.get_closest_marker("esp32"):
                item.add_marker(skip)


def missing(reason: str) -> None:
    """A tool is not here: skip, or fail where everything has to be here."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def built() -> Callable[[Callable[[], Path]], Path]:
    """Call a function that builds something; where a tool is missing, skip or fail."""

    def build(function: Callable[[], Path]) -> Path:
        try:
            return function()
        except MissingToolError as error:
            missing(str(error))
            raise  # not reached: missing() raises

    return build


@pytest.fixture(scope="module")
def open_board(board: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDut]:
    """Open boards of the chosen kind: open_board(), open_board(link=("127.0.0.1", port), folder=...)."""
    opened: list[Dut] = []

    def open_one(*, link: Endpoint | None = None, folder: Path | None = None) -> Dut:
        try:
            dut = open_dut(board, folder or tmp_path_factory.mktemp(board), link)
        except MissingToolError as error:
            missing(f"{board}: {error}")
            raise  # not reached: missing() raises
        opened.append(dut)
        return dut

    yield open_one
    for dut in opened:
        dut.kill()


@pytest.fixture(scope="module")
def dut(open_board: OpenDut) -> Dut:
    """A running board at its raw REPL, shared by the tests of a module."""
    return open_board()
