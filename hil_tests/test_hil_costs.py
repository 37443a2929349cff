# SPDX-License-Identifier: MIT
"""What a report may cost on the RP2040: cycles are counted by the emulator, so they are the same in every run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from peel_hil import bench_device
from peel_hil.bench_heap import measure_heap
from peel_tools.boards.natmod import build_natmod

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures.md"


@pytest.mark.boards("pico")
def test_a_report_stays_within_its_budget(board: str, tmp_path: Path) -> None:
    """The limits are those of docs/figures.md; the lower bounds are for a meter that has stopped counting."""
    costs = bench_device.measure_reports(tmp_path / "one")
    assert costs == bench_device.measure_reports(tmp_path / "two"), "to the cycle"
    assert 5_000 < costs["k16"]["cycles"] <= 18_000
    assert costs["k16"]["cycles"] < costs["k64"]["cycles"] < costs["k252"]["cycles"] <= 35_000
    assert costs["k16"]["cycles"] * 0.9 < costs["hashing"]["cycles"] <= 18_000
    assert all(100 < costs[size]["stack_bytes"] <= 512 for size in ("k16", "k64", "k252", "hashing"))
    assert costs["ram_bytes"]["encoder_k252"] + costs["ram_bytes"]["drbg"] <= 160
    assert costs["k252"]["cached"]["cycles"] < costs["k252"]["cycles"]

    assert_documented(
        *(
            f"| {costs[size]['cycles']:,} | {costs[size]['cached']['cycles']:,} |"
            for size in ("k16", "k64", "k252", "hashing")
        ),
        f"| stack | {costs['k252']['stack_bytes']} bytes, hashing {costs['hashing']['stack_bytes']} (",
        f"| {costs['ram_bytes']['drbg']} and {costs['ram_bytes']['encoder_k252']} bytes;",
    )


@pytest.mark.boards("pico")
def test_the_native_module_is_small(board: str) -> None:
    size = build_natmod("armv6m").stat().st_size
    assert size <= 10 * 1024
    assert_documented(f"| native module, armv6m | {size:,} bytes")


@pytest.mark.boards("pico")
def test_the_application_leaves_room_for_tls(board: str, tmp_path: Path) -> None:
    """Garbage varies a little from run to run: the page has round figures."""
    heap = measure_heap(tmp_path)
    assert heap["total"] == heap["used"] + heap["free"]
    assert 40_000 < heap["used"] < 90_000
    assert heap["largest_free"] > 2 * heap["tls_buffers"]
    assert_documented(
        f"| heap in use after 20 reports | {round(heap['used'], -4) // 1000} KB of {heap['total'] // 1000} KB"
    )


def assert_documented(*figures: str) -> None:
    """These figures stand in docs/figures.md, if the compiler is the one that they are said to be of."""
    version = subprocess.run(["arm-none-eabi-gcc", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    text = FIGURES.read_text(encoding="utf-8")
    if f"GCC {version.partition('.')[0]}." in text:
        for figure in figures:
            assert figure in text, f"docs/figures.md is not what `peel bench device` prints: {figure}"
