# SPDX-License-Identifier: MIT
"""MicroPython's unix port: the same interpreter on the host, without a board."""

from __future__ import annotations

from peel_hil.duts.base import DEVICE_CODE, Dut
from peel_hil.emulators.images import board_image

__all__ = ["UnixDut"]


class UnixDut(Dut):
    """The unix port with our raw REPL. Its files are those of the folder."""

    name = "unix"
    processor = "this machine"
    native_architectures = ("x64",)

    def command(self) -> list[str]:
        return [str(board_image(self.name).elf), str(DEVICE_CODE / "raw_repl.py")]

    def boot(self) -> None:
        self.console.enter_raw(self.boot_timeout)
        self.exec("import sys\nsys.path.insert(0, '')")

    def put(self, path: str, data: bytes) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def get(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()
