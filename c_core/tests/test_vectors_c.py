# SPDX-License-Identifier: MIT
"""Every vector in C: compiled for this machine, with sanitizers, and for a big-endian machine."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from peel_hil.vectors import Line, driver_lines
from peel_tools.boards.build_tools import require

VECTORS = Path(__file__).resolve().parents[2] / "spec" / "vectors"
SANITIZE = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
BUILDS = {
    "gcc": (["gcc", "-O2"], []),
    "gcc-size": (["gcc", "-Os"], []),
    "gcc-sanitizers": (["gcc", *SANITIZE], []),
    "clang-sanitizers": (["clang-22", *SANITIZE], []),
    "s390x-big-endian": (["s390x-linux-gnu-gcc", "-O2", "-static"], ["qemu-s390x"]),
}


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return driver_lines(VECTORS)


def answers(command: list[str], lines: list[Line]) -> list[str]:
    text = "".join(line.command + "\n" for line in lines)
    run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.parametrize(
    "name", ["gcc", *(pytest.param(name, marks=pytest.mark.slow) for name in BUILDS if name != "gcc")]
)
def test_vectors(name: str, build: Callable[..., Path], lines: list[Line]) -> None:
    compile_command, runner = BUILDS[name]
    require(*runner)
    given = answers([*runner, str(build("driver", *compile_command))], lines)
    assert len(given) == len(lines)
    wrong = [(line, answer) for line, answer in zip(lines, given, strict=True) if line.answer != answer]
    assert wrong == []


def test_lines_cover_every_kind_of_vector(lines: list[Line]) -> None:
    covered = {line.source.split("[")[0] for line in lines}
    # cases that need a table of profiles and devices, or do not concern C, are tested through peel_core
    elsewhere = {
        "keys",
        "keys_bad_fleet",
        "keys_bad_salt",
        "payload",
        "profile",
        "hash_symbols",
        "odds",
        "topics",
        "coin_audit",
        *(f"frame_bad_{n}" for n in READER_FAULTS),
    }
    named = {path.stem for path in VECTORS.glob("*.json") if not path.stem.startswith("profile_bad_")}
    assert covered == named - elsewhere


READER_FAULTS = (
    "device_profile",
    "device_unknown",
    "device_zero",
    "length",
    "number_zero",
    "profile",
    "short_header",
)


@pytest.mark.slow
def test_every_single_bit_of_a_sealed_frame_matters(build: Callable[..., Path], lines: list[Line]) -> None:
    """Flip each bit of a k = 252 frame: none may open under the device's key."""
    seal_key, frame, width = largest_frame(lines)
    flips = [Line("flip", f"frame {width} {seal_key} {flip(frame, bit).hex()}", "") for bit in range(8 * len(frame))]
    given = answers([str(build("driver", "gcc", "-O2"))], flips)
    assert len(given) == 632
    assert all(int(answer) < 0 for answer in given)


def largest_frame(lines: list[Line]) -> tuple[str, bytes, int]:
    device = next(
        line.command.split() for line in lines if line.command.startswith("device") and " 1:1:252:1:0:" in line.command
    )
    position = next(i for i, line in enumerate(lines) if line.command.split() == device)
    return device[6], bytes.fromhex(lines[position + 1].answer), int(device[4])


def flip(frame: bytes, bit: int) -> bytes:
    changed = bytearray(frame)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
