# SPDX-License-Identifier: MIT
"""A short run of the fuzz targets; `make fuzz` runs them for longer."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from peel_tools.boards.build_tools import require

FUZZ = Path(__file__).with_name("fuzz.py")


RUNS = 200_000


def test_fuzz_briefly(tmp_path: Path, seed: int) -> None:
    require("clang-22")
    limits = ["--seconds", "0", "--runs", str(RUNS), "--seed", str(max(1, seed))]
    run = subprocess.run(
        [sys.executable, str(FUZZ), *limits, "--work", str(tmp_path)], capture_output=True, text=True, timeout=500
    )
    assert run.returncode == 0, run.stderr[-3000:]
    executed = [int(count) for count in re.findall(r"stat::number_of_executed_units: *(\d+)", run.stderr)]
    assert executed == [RUNS, RUNS, RUNS // 20, RUNS, RUNS, RUNS, RUNS // 20]
