# SPDX-License-Identifier: MIT
"""Limits for the cost of a report on the RP2040. The emulator counts cycles, so they are the same in every run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from peel_hil import bench_device
from peel_hil.bench_heap import measure_heap
from peel_tools.boards.natmod import build_natmod

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures.json"
TAKE_AGAIN = "docs/figures.json is not what `peel bench device` prints: scripts/figures --only device"


@pytest.mark.boards("pico")
def test_a_report_stays_within_its_budget(board: str, tmp_path: Path) -> None:
    """The limits are those of docs/lab-and-figures.md; the lower bounds detect a meter that does not count."""
    costs = bench_device.measure_reports(tmp_path / "one")
    assert costs == bench_device.measure_reports(tmp_path / "two"), "to the cycle"
    assert 5_000 < costs["k16"]["cycles"] <= 18_000
    assert costs["k16"]["cycles"] < costs["k64"]["cycles"] < costs["k252"]["cycles"] <= 40_000
    assert costs["k16"]["cycles"] * 0.9 < costs["hashing"]["cycles"] <= 18_000
    assert all(100 < costs[size]["stack_bytes"] <= 512 for size in ("k16", "k64", "k252", "hashing"))
    assert costs["ram_bytes"]["encoder_k252"] + costs["ram_bytes"]["drbg"] <= 160
    assert costs["k252"]["cached"]["cycles"] < costs["k252"]["cycles"]

    documented = documented_figures()
    if documented is not None:
        assert costs == {name: documented[name] for name in costs}, TAKE_AGAIN


@pytest.mark.boards("pico")
def test_a_verified_coin_stays_within_its_budget(board: str, tmp_path: Path) -> None:
    """At odds 8:3, audited tables included. The core's stack has the buffers of a table; there are no others."""
    costs = bench_device.measure_verified(tmp_path)
    assert 200_000 < costs["cycles"] <= 700_000
    assert costs["seed_cycles"] < costs["mask_cycles"] < costs["root_cycles"] < costs["open_cycles"]
    assert 200 < costs["stack_bytes"] <= 1024

    documented = documented_figures()
    assert documented is None or costs == documented["verified"], TAKE_AGAIN


@pytest.mark.boards("pico")
def test_the_native_module_is_small(board: str) -> None:
    size = build_natmod("armv6m").stat().st_size
    assert size <= 12 * 1024
    documented = documented_figures()
    assert documented is None or size == documented["mpy_bytes_armv6m"], TAKE_AGAIN


@pytest.mark.boards("pico")
def test_the_application_leaves_room_for_tls(board: str, tmp_path: Path) -> None:
    """Garbage, and so the used memory, varies a little from run to run."""
    heap = measure_heap(tmp_path)
    assert heap["total"] == heap["used"] + heap["free"]
    assert 40_000 < heap["used"] < 90_000
    assert heap["largest_free"] > 2 * heap["tls_buffers"]
    documented = documented_figures()
    if documented is not None:
        assert heap["total"] // 1000 == documented["heap_bytes"]["total"] // 1000, TAKE_AGAIN
        assert abs(heap["used"] - documented["heap_bytes"]["used"]) < 5_000, TAKE_AGAIN


def documented_figures() -> dict[str, Any] | None:
    """Return the output of `peel bench device` from docs/figures.json, if the compiler is the same."""
    documented: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))["device"]
    command = ["arm-none-eabi-gcc", "-dumpfullversion"]
    here = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    figures: dict[str, Any] = documented["figures"]
    return figures if here == documented["compiler"] else None
