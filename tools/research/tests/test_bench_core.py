# SPDX-License-Identifier: MIT
"""The sizes that the core promises; its speed is a benchmark, not a test."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from peel_research.bench import core
from peel_tools.boards.build_tools import require

FIGURES = Path(__file__).resolve().parents[3] / "docs" / "figures.json"


def test_sizes_on_a_cortex_m0() -> None:
    require("arm-none-eabi-gcc")
    figures = core.measure(k=16)
    assert set(figures) == {
        "k",
        "frame_bits",
        "ns_per_report",
        "reference_ns_per_report",
        "ratio_vs_reference",
        "us_per_opening",
        "us_per_audited_table",
        "text_bytes_armv6m",
        "stack_bytes_armv6m",
    }
    assert figures["frame_bits"] == 304
    assert 2000 < figures["text_bytes_armv6m"] <= 6 * 1024
    assert 200 < figures["stack_bytes_armv6m"] <= 640
    documented = json.loads(FIGURES.read_text(encoding="utf-8"))["core"]
    asked = ["arm-none-eabi-gcc", "-dumpfullversion"]
    if subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip() == documented["compiler"]:
        for size in ("text_bytes_armv6m", "stack_bytes_armv6m"):
            assert figures[size] == documented["figures"][size], "take it again: scripts/figures --only core"
