# SPDX-License-Identifier: MIT
"""The Raspberry Pi Pico in rp2040js, with its flash in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peel_hil.duts.base import Dut, Endpoint
from peel_hil.emulators.images import board_image
from peel_hil.emulators.pico import flash_image, pico_emulator
from peel_tools.boards.build_tools import require
from peel_tools.boards.table import find_board

__all__ = ["PicoDut"]


class PicoDut(Dut):
    """A Pico whose console is USB serial and whose UART1 (GPIO 4 and 5) is a TCP connection.

    The flash is flash.bin in the folder, made with the firmware on it when it is not there, and written through word by word.
    `sensors` are devices on I2C0 and levels of pins; see pico/sensors.mjs. With `functions` (name -> address) each call of them is
    measured; see `calls`. `image` is the firmware to put on a new flash.
    """

    name = "pico"
    processor = "RP2040"
    native_architectures = (find_board("pico").usual_module,)
    boot_timeout = 30.0

    def __init__(
        self,
        folder: Path,
        link: Endpoint | None = None,
        *,
        sensors: Mapping[str, Any] | None = None,
        functions: Mapping[str, int] | None = None,
        image: str = "pico",
    ) -> None:
        super().__init__(folder, link)
        self._image = image
        self._sensors = dict(sensors or {})
        self._functions = dict(functions or {})

    @property
    def flash(self) -> Path:
        return self.folder / "flash.bin"

    def command(self) -> list[str]:
        require("node")
        emulator = pico_emulator()
        if not self.flash.exists():
            self.flash.write_bytes(flash_image(board_image(self._image)))
        settings: dict[str, Any] = {"rom": str(emulator.rom), "flash": str(self.flash), "sensors": self._sensors}
        if self.link:
            settings["link"] = list(self.link)
        if self._functions:
            settings["measure"] = {"functions": self._functions, "file": str(self._calls_file)}
        return ["node", str(emulator.program), json.dumps(settings)]

    def boot(self) -> None:
        self.console.expect(rb">>> ", self.boot_timeout)
        self.console.enter_raw()

    @property
    def _calls_file(self) -> Path:
        return self.folder / "calls.jsonl"

    def calls(self) -> list[dict[str, Any]]:
        """Return every measured call so far, in order: name, cycles, stack_bytes."""
        if not self._calls_file.exists():
            return []
        return [json.loads(line) for line in self._calls_file.read_text().splitlines()]
