# SPDX-License-Identifier: MIT
"""A provisioned device on an emulated board: its bundle and application on the board's file system, and its state there.

The flash is read back with separate code, not the firmware's, so that a mistake there cannot go unnoticed here.
"""

from __future__ import annotations

import ast
import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from peel_hil.duts import Dut, DutError
from peel_hil.duts.console import ConsoleTimeoutError
from peel_tools.boards.cache import REPOSITORY
from peel_tools.boards.table import BOARDS

__all__ = ["Device", "Flash"]

_MODULE = "peel_application"  # firmware/main.py under a name that no board starts automatically
_FIRMWARE = REPOSITORY / "firmware"
_START_SECONDS = 30.0
_DUMP_SECONDS = 180.0  # an outbox may hold hundreds of frames
_INTERRUPTS = 6

_START = """
from peel_device import link, timing
link.TIMEOUT_MS = {timeout_ms}
timing.RESEND_FIRST_MS = {resend_ms}
import {module}
{module}.main()
"""

_DUMP = """
import os
from binascii import hexlify
def dump(folder):
    try:
        entries = os.ilistdir(folder)  # one by one: the names in a full outbox exceed a small heap
    except OSError:
        return
    for entry in entries:
        path = folder + "/" + entry[0]
        if entry[1] & 0x4000:
            dump(path)
        else:
            with open(path, "rb") as file:
                print(repr((path, hexlify(file.read()).decode())))
dump({home!r})
"""

_LEDGER_SIZES = (6, 12, 8, 8)
_DROPS_SIZES = (8, 6)


@dataclass(frozen=True, kw_only=True)
class Flash:
    """A device's state on flash."""

    next_number: int
    """The lowest number that is not spent; 0 before the first start."""
    spent_q20: int
    """Epsilon spent, in units of 2^-20."""
    dropped: int
    """Frames dropped from a full outbox."""
    frames: dict[int, bytes]
    """Whole frames in the outbox, by report number."""


class Device:
    """One device of a site, on one board."""

    def __init__(self, dut: Dut, bundle: Mapping[str, Any]) -> None:
        self.dut = dut
        self.bundle = dict(bundle)
        self._home = f"peel/{bundle['fleet']}-{bundle['device']}"

    @property
    def label(self) -> str:
        """The device id as topics contain it."""
        return str(self.bundle["device"])

    def provision(self, *, autostart: bool = False) -> None:
        """Put bundle, board file and main program on the board's file system. The rest of the application is in the image."""
        self.dut.exec("import os\nif 'boards' not in os.listdir():\n os.mkdir('boards')")
        (board,) = [board for board in BOARDS.values() if board.emulator == self.dut.name]
        for path in (f"boards/{name}.py" for name in board.files):
            self.dut.put(path, (_FIRMWARE / path).read_bytes())
        self.dut.put("peel.json", json.dumps(self.bundle).encode())
        self.dut.put("main.py" if autostart else f"{_MODULE}.py", (_FIRMWARE / "main.py").read_bytes())

    def start(self, *, timeout_ms: int = 10000, resend_ms: int = 60000, wait: bool = True) -> None:
        """Start the application from the prompt. `timeout_ms` is the wait for the broker's answers, `resend_ms` for receipts."""
        self.dut.begin(_START.format(module=_MODULE, timeout_ms=timeout_ms, resend_ms=resend_ms))
        if wait:
            self.wait_until_up()

    def wait_until_up(self) -> None:
        """Wait for the application's start message."""
        self.dut.expect(f"peel: {self.label} of fleet [a-z]+ is up", _START_SECONDS)

    def stop_and_read(self) -> Flash:
        """Stop an application that the board started itself, from the console, and read its state on flash.

        Sometimes the emulated USB console takes no input after Ctrl-C, or only one packet. Then this pulls the plug and tries again.
        """
        for _ in range(_INTERRUPTS):
            self.dut.console.write(b"\x03")
            with suppress(ConsoleTimeoutError):
                self.dut.expect(rb">>> ", 10)
                self.dut.console.enter_raw(3.0)
                return self.flash()
            self.dut.reset()
            self.wait_until_up()
        raise DutError(
            f"{self.dut.name} could not be read after Ctrl-C, {_INTERRUPTS} times: is its application running?"
        )

    def flash(self) -> Flash:
        """Read the device's state from the board's file system. The application must not be running."""
        lines = self.dut.exec(_DUMP.format(home=self._home), timeout=_DUMP_SECONDS).splitlines()
        files = {
            path.removeprefix(self._home + "/"): bytes.fromhex(text) for path, text in map(ast.literal_eval, lines)
        }
        next_number, spent, _, _ = _newest(files, "ledger", _LEDGER_SIZES)
        dropped, dropped_through = _newest(files, "outbox/state", _DROPS_SIZES)
        return Flash(
            next_number=next_number, spent_q20=spent, dropped=dropped, frames=_frames(files, above=dropped_through)
        )


def _whole(data: bytes) -> bytes | None:
    """Return a file's content without its CRC-32, or None if it is torn."""
    body = data[:-4]
    return body if len(data) > 4 and zlib.crc32(body) == int.from_bytes(data[-4:], "little") else None


def _newest(files: Mapping[str, bytes], path: str, sizes: tuple[int, ...]) -> list[int]:
    """Return the fields of the newest whole copy of a record; zeros if there is no such copy."""
    copies = [body for slot in "01" if (body := _whole(files.get(f"{path}.{slot}", b""))) is not None]
    if not copies:
        return [0] * len(sizes)
    record = max(copies, key=lambda body: int.from_bytes(body[3:7], "little"))[7:]
    starts = [sum(sizes[:at]) for at in range(len(sizes))]
    return [int.from_bytes(record[start : start + size], "little") for start, size in zip(starts, sizes, strict=True)]


def _frames(files: Mapping[str, bytes], *, above: int) -> dict[int, bytes]:
    found = {}
    for path, data in files.items():
        folder, _, name = path.rpartition("/")
        frame = _whole(data)
        if folder == "outbox" and len(name) == 12 and frame is not None and int(name, 16) > above:
            found[int(name, 16)] = frame
    return found
