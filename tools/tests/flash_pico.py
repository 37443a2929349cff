# SPDX-License-Identifier: MIT
"""The emulated Pico behind a pseudo-terminal, booted from a UF2 file as its boot ROM would load it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import threading
import tty
from pathlib import Path
from types import TracebackType
from typing import Self

from peel_hil.emulators.pico import FLASH_BYTES, pico_emulator
from peel_tools.boards.table import find_board
from peel_tools.flashing.image import read_uf2
from peel_tools.flashing.remote import Remote

_FLASH_START = 0x10000000


def flash_from_uf2(image: Path) -> bytes:
    """The flash of a new Pico after this file was copied to its boot drive."""
    uf2 = read_uf2(image)
    assert uf2.family == find_board("pico").boot_drives[0].family
    flash = bytearray(b"\xff" * FLASH_BYTES)
    for address, data in uf2.blocks.items():
        flash[address - _FLASH_START : address - _FLASH_START + len(data)] = data
    return bytes(flash)


class EmulatedPico:
    """Runs the emulator and carries its USB console to a terminal that mpremote can open. UART1 leads to `link`."""

    def __init__(self, image: Path, folder: Path, link: tuple[str, int]) -> None:
        self._flash = folder / "flash.bin"
        self._flash.write_bytes(flash_from_uf2(image))
        self._link = link

    def __enter__(self) -> Self:
        emulator = pico_emulator()
        settings = {"rom": str(emulator.rom), "flash": str(self._flash), "link": self._link}
        self._process = subprocess.Popen(
            ["node", str(emulator.program), json.dumps(settings)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()
        self.remote = Remote(os.ttyname(self._slave))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        os.close(self._master)
        os.close(self._slave)

    def _carry(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        output, console = self._process.stdout.fileno(), self._process.stdin
        while self._process.poll() is None:
            ready, _, _ = select.select([output, self._master], [], [], 0.2)
            if output in ready:
                data = os.read(output, 4096)
                if not data:
                    return
                os.write(self._master, data)
            if self._master in ready:
                console.write(os.read(self._master, 4096))
                console.flush()
