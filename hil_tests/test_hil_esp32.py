# SPDX-License-Identifier: MIT
"""The ESP32 as far as emulation goes: the core compiled for its processor, and its native module inside MicroPython.

Debian's QEMU has no ESP32, and MicroPython's port needs Espressif's toolchain. So the vectors run on a processor with the same
instruction set in QEMU's user mode: through the core by itself, and through the native module, loaded by an interpreter compiled from
MicroPython's own sources.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from peel_hil.duts.base import DutError
from peel_hil.duts.esp32 import Esp32Dut
from peel_hil.duts.vectors import VECTORS, run_vectors
from peel_hil.emulators.esp32 import CPU, micropython_core, vector_driver
from peel_hil.vectors import driver_lines
from peel_tools.boards.natmod import build_natmod

pytestmark = pytest.mark.esp32


_XTENSAWIN = 10


@pytest.fixture(scope="module")
def esp32(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Esp32Dut]:
    """MicroPython's core at its raw REPL."""
    micropython_core()
    with Esp32Dut(tmp_path_factory.mktemp("esp32")) as dut:
        dut.start()
        yield dut


def test_vectors() -> None:
    program = vector_driver()
    lines = driver_lines(VECTORS)
    text = "".join(line.command + "\n" for line in lines)
    run = subprocess.run(
        ["qemu-xtensa", "-cpu", CPU, str(program)], input=text, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0, run.stderr
    answers = run.stdout.splitlines()
    assert len(answers) == len(lines)
    assert [line for line, answer in zip(lines, answers, strict=True) if line.answer != answer] == []


def test_native_module_is_for_the_esp32() -> None:
    header = build_natmod("xtensawin").read_bytes()[:4]
    assert header[0:2] == b"M\x06"  # .mpy, version 6
    assert header[2] >> 2 == _XTENSAWIN


def test_vectors_through_the_native_module(esp32: Esp32Dut) -> None:
    esp32.load("peelcore", build_natmod("xtensawin"))
    problems, compared = run_vectors(esp32, ["peelcore"])
    assert problems == []
    assert compared > 2000


def test_a_module_for_another_architecture_is_refused(esp32: Esp32Dut) -> None:
    esp32.put("foreign.mpy", build_natmod("x64").read_bytes())
    with pytest.raises(DutError, match=r"incompatible \.mpy arch"):
        esp32.exec("import foreign")
