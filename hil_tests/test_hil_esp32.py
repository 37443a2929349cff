"""The ESP32 as far as emulation goes: the core compiled for its processor, and its native module.

Debian's QEMU has no ESP32, and MicroPython's port needs Espressif's toolchain. So the vectors run on a core with the same instruction
set in QEMU's user mode, and the native module is built and its header read, but not loaded.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from peel_tools.boards.esp32_program import CPU, vector_driver
from peel_tools.boards.natmod import build_natmod
from peel_tools.duts.vectors import VECTORS
from peel_tools.vectors import driver_lines

pytestmark = pytest.mark.esp32

Built = Callable[[Callable[[], Path]], Path]

_XTENSAWIN = 10


def test_vectors(built: Built) -> None:
    program = built(vector_driver)
    lines = driver_lines(VECTORS)
    text = "".join(line.command + "\n" for line in lines)
    run = subprocess.run(
        ["qemu-xtensa", "-cpu", CPU, str(program)], input=text, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    answers = run.stdout.splitlines()
    assert len(answers) == len(lines)
    assert [line for line, answer in zip(lines, answers, strict=True) if line.answer != answer] == []


def test_native_module_is_for_the_esp32(built: Built) -> None:
    header = built(lambda: build_natmod("xtensawin")).read_bytes()[:4]
    assert header[0:2] == b"M\x06"  # .mpy, version 6
    assert header[2] >> 2 == _XTENSAWIN
