# SPDX-License-Identifier: MIT
"""The ESP32 as far as emulation goes: MicroPython's core on a processor of the same instruction set, in QEMU's user mode."""

from __future__ import annotations

from peel_hil.duts.base import Dut
from peel_hil.emulators.esp32 import CPU, micropython_core
from peel_tools.boards.command import require

__all__ = ["Esp32Dut"]


class Esp32Dut(Dut):
    """An interpreter that loads native modules, with a raw REPL; its files are those of the folder, and only import reads them.

    No member of DUTS: it has no user C module, no timers, no network.
    """

    name = "esp32"
    native_architectures = ("xtensawin",)

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
