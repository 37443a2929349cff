# SPDX-License-Identifier: MIT
"""Fixtures: the firmware on an emulated board (`dut`), and a site for it (`site`). `--board` chooses the boards, by default all.

A board whose tools are missing is skipped with the reason; with CI=true it fails (see conftest.py of the repository).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from peel_hil.duts import ALL_DUTS, DUTS, Dut, Endpoint, open_dut
from peel_hil.site import BoardSite, climate

OpenDut = Callable[..., Dut]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--board",
        action="append",
        choices=[*ALL_DUTS, "all"],
        help="run the hardware-in-the-loop tests on this emulated board (may be given more than once)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "esp32: a test of the ESP32's code, which runs with --board esp32")
    config.addinivalue_line(
        "markers", "boards(*names): the emulated boards that a test with the fixture `dut` can run on"
    )


def _chosen(config: pytest.Config) -> set[str]:
    chosen = config.getoption("--board") or ["all"]
    return set(ALL_DUTS) if "all" in chosen else set(chosen)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "board" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("boards")
    able = marker.args if marker else tuple(DUTS)
    metafunc.parametrize("board", [name for name in able if name in _chosen(metafunc.config)], scope="module")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "esp32" not in _chosen(config):
        others = [item for item in items if item.get_closest_marker("esp32")]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]


@pytest.fixture(scope="module")
def open_board(board: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDut]:
    """Open boards of the chosen kind: open_board(), open_board(link=("127.0.0.1", port), folder=...)."""
    opened: list[Dut] = []

    def open_one(*, link: Endpoint | None = None, folder: Path | None = None) -> Dut:
        opened.append(open_dut(board, folder or tmp_path_factory.mktemp(board), link))
        return opened[-1]

    yield open_one
    for dut in opened:
        dut.kill()


@pytest.fixture(scope="module")
def dut(open_board: OpenDut) -> Dut:
    """A running board at its raw REPL, shared by the tests of a module."""
    return open_board()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[BoardSite]:
    """A fleet, a broker and a gateway for boards that report as fast as they can."""
    with BoardSite(tmp_path / "site", climate(epsilon=1.0, quota=100_000, period=60)) as running:
        yield running
