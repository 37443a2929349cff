# SPDX-License-Identifier: MIT
"""An emulated board at the end of a pseudo-terminal, with LittleFS on its external RAM: what mpremote needs to work on it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from peel_tools.flashing.remote import Remote

# 16 MB of RAM that the image does not use, at 0x21000000: a flash that lasts as long as the emulator.
_MOUNT = """
import vfs, uctypes
class Disk:
    def __init__(self, blocks):
        self.count = blocks
        self.memory = uctypes.bytearray_at(0x21000000, blocks * 4096)
    def readblocks(self, block, data, offset=0):
        start = block * 4096 + offset
        data[:] = self.memory[start : start + len(data)]
    def writeblocks(self, block, data, offset=0):
        start = block * 4096 + offset
        self.memory[start : start + len(data)] = data
    def ioctl(self, operation, argument):
        return {{4: self.count, 5: 4096}}.get(operation, 0)
disk = Disk({blocks})
vfs.VfsLfs2.mkfs(disk)
vfs.mount(disk, "/")
"""


class EmulatedBoard:
    """QEMU's mps2-an385 running an image."""

    def __init__(self, image: Path) -> None:
        self._image = image

    def __enter__(self) -> Self:
        machine = ["-machine", "mps2-an385", "-nographic", "-monitor", "null", "-semihosting"]
        self._process = subprocess.Popen(
            ["qemu-system-arm", *machine, "-serial", "pty", "-kernel", str(self._image)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"(/dev/pts/\d+)", line)
        assert found, line
        self.remote = Remote(found.group(1))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def mount(self, blocks: int) -> None:
        """Make an empty file system of so many blocks of 4 KiB."""
        self.remote.execute(_MOUNT.format(blocks=blocks))

    def wait_for_reset(self) -> None:
        """A reset ends this emulator."""
        self._process.wait(10)
