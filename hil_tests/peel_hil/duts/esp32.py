# SPDX-License-Identifier: MIT
"""The ESP32 as far as emulation goes: MicroPython's core on a processor of the same instruction set, in QEMU's user mode."""

from __future__ import annotations

from peel_hil.duts.base import Dut
from peel_hil.emulators.esp32 import CPU, micropython_core
from peel_tools.boards.build_tools import require
from peel_tools.boards.table import find_board

__all__ = ["Esp32Dut"]


class Esp32Dut(Dut):
    """An interpreter with a raw REPL that loads native modules. Its files are those of the folder; only import reads them."""

    name = "esp32"
    processor = "Xtensa core of the ESP32's kind"
    native_architectures = (find_board("esp32").usual_module,)

    def command(self) -> list[str]:
        require("qemu-xtensa")
        return ["qemu-xtensa", "-cpu", CPU, str(micropython_core())]

    def boot(self) -> None:
        self.console.enter_raw(self.boot_timeout)
        self.exec("import sys\nsys.path.insert(0, '')")

    def put(self, path: str, data: bytes) -> None:
        (self.folder / path).write_bytes(data)

    def remove(self, path: str) -> None:
        (self.folder / path).unlink()
