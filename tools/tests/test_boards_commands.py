# SPDX-License-Identifier: MIT
"""`peel firmware build` and `peel firmware natmod`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from peel_tools.boards.natmod import build_natmod
from peel_tools.commands.firmware import firmware


def test_natmod_writes_a_folder_per_architecture(tmp_path: Path) -> None:
    build_natmod("x64")  # skips where its tools are missing; the command only says so
    result = CliRunner().invoke(firmware, ["natmod", "x64", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert f"{tmp_path / 'x64' / 'package.json'}" in result.output
    assert sorted(path.name for path in (tmp_path / "x64").iterdir()) == [
        "package.json",
        "peel_load.py",
        "peelcore.mpy",
    ]


def test_a_build_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROPYTHON_DIR", str(tmp_path))
    result = CliRunner().invoke(firmware, ["build", "pico"])
    assert result.exit_code == 7
    assert result.output.startswith(f"Error: pico: MICROPYTHON_DIR={tmp_path} is not a MicroPython source tree.")


@pytest.mark.parametrize("command", ["build", "natmod"])
def test_an_unknown_name_lists_the_known_ones(command: str) -> None:
    result = CliRunner().invoke(firmware, [command, "toaster"])
    assert result.exit_code == 2
    assert "'all'" in result.output
