# SPDX-License-Identifier: MIT
"""The sizes that the core promises; its speed is a benchmark, not a test."""

from __future__ import annotations

from peel_tools import bench_core
from peel_tools.boards.command import require


def test_sizes_on_a_cortex_m0() -> None:
    require("arm-none-eabi-gcc")
    figures = bench_core.measure(k=16)
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
