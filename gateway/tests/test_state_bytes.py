# SPDX-License-Identifier: MIT
"""Stored states of the bets are little-endian on every machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from peel_core import make_profile
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.tables import Rows
from peel_gateway.screening.device_tests import checkpoints, starts
from peel_gateway.screening.e_process import EProcess, Events
from peel_tools.boards.build_tools import require

TESTS = Path(__file__).resolve().parent
KERNELS = TESTS.parent / "kernels"
ATTRIBUTES = [
    {"name": "heat", "kind": "mean", "low": 0, "high": 1},
    {"name": "door", "kind": "category", "categories": ["open", "shut", "ajar"]},
    {"name": "fault", "kind": "hashed", "domain": 60},
]


def printed(folder: Path, compiler: str, flags: list[str], run: list[str]) -> str:
    """Return what the program prints that one compiler makes of the kernel."""
    for tool in (compiler, *run):
        require(tool)
    program = folder / compiler
    kernels = [
        str(KERNELS / f"{name}.c") for name in ("e_process", "predictions", "sets", "heavy_hitters", "frequencies")
    ]
    command = [compiler, "-std=c99", *flags, f"-I{KERNELS}", str(TESTS / "state_bytes.c"), *kernels, "-o", str(program)]
    subprocess.run(command, check=True)
    return subprocess.run([*run, str(program)], check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
def test_a_big_endian_machine_stores_the_same_bytes(tmp_path: Path) -> None:
    here = printed(tmp_path, "gcc", ["-O2", "-ffp-contract=off"], [])
    there = printed(tmp_path, "s390x-linux-gnu-gcc", ["-O2", "-ffp-contract=off", "-static"], ["qemu-s390x"])
    assert len(here) > 4000 and len(set(here)) == 16
    assert there == here


def test_a_big_endian_machine_reads_what_it_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = make_profile(
        {
            "name": "mixed",
            "epsilon": 1,
            "verify": False,
            "seed": 1,
            "quota": 48,
            "period": 86_400,
            "attribute": ATTRIBUTES,
        }
    )
    e_process = EProcess(questions_of(profile).bets(), 1e-6)
    states, rng, count = e_process.new_states(3), np.random.default_rng(1), 900
    unit = rng.integers(0, e_process.bets.units, count)
    events = Events(
        row=np.arange(count) % 3,
        number=np.arange(1, count + 1),
        unit=unit,
        symbol=rng.integers(0, 2, count),
        cohort=np.zeros(count, np.int64),
        kind=np.zeros(count, np.int64),
    )
    e_process.update(states, events)
    device = np.array([4, 5, 6])
    monkeypatch.setattr(sys, "byteorder", "big")
    stored = checkpoints(profile, e_process, device, np.full(3, count), states, Rows(np.arange(3)))
    assert (starts(stored, profile, device, e_process) == states).all()
    monkeypatch.setattr(sys, "byteorder", "little")
    assert (starts(stored, profile, device, e_process) == e_process.reversed(states)).all()
    assert (e_process.reversed(e_process.reversed(states)) == states).all()
