# SPDX-License-Identifier: MIT
"""The sizes that the core promises; its speed is a benchmark, not a test."""

from __future__ import annotations

import subprocess
from pathlib import Path

from peel_tools.bench import core
from peel_tools.boards.command import require

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures.md"


def test_sizes_on_a_cortex_m0() -> None:
    require("arm-none-eabi-gcc")
    figures = core.measure(k=16)
    assert set(figures) == {
        "k",
        "frame_bits",
        "ns_per_report",
        "reference_ns_per_report",
        "ratio_vs_reference",
        "text_bytes_armv6m",
        "stack_bytes_armv6m",
    }
    assert figures["frame_bits"] == 304
    assert 2000 < figures["text_bytes_armv6m"] <= 6 * 1024
    assert 200 < figures["stack_bytes_armv6m"] <= 640
    version = subprocess.run(["arm-none-eabi-gcc", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    documented = FIGURES.read_text(encoding="utf-8")
    if f"GCC {version.partition('.')[0]}." in documented:
        assert f"| {figures['text_bytes_armv6m']:,} bytes | 6,144 bytes |" in documented
        assert f"| {figures['stack_bytes_armv6m']} bytes | 640 bytes |" in documented
