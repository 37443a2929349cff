# SPDX-License-Identifier: MIT
"""A short run of the fuzz targets; `make fuzz` runs them for longer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from peel_tools.boards.command import require

FUZZ = Path(__file__).with_name("fuzz.py")


def test_fuzz_briefly(tmp_path: Path) -> None:
    require("clang-22")
    run = subprocess.run(
        [sys.executable, str(FUZZ), "--seconds", "8", "--work", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stderr.count("stat::number_of_executed_units") == 2
