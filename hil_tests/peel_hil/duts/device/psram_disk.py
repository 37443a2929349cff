# SPDX-License-Identifier: MIT
# LittleFS in the mps2-an385's external RAM, a file on the host that outlives the emulator.
import uctypes
import vfs

_BASE, _BLOCK, _BLOCKS = 0x21000000, 4096, 256
_ERASED = b"\xff" * _BLOCK  # allocated while the heap still has such a block


class PsramDisk:
    def __init__(self):
        self.memory = uctypes.bytearray_at(_BASE, _BLOCK * _BLOCKS)

    def readblocks(self, block, buffer, offset=0):
        start = block * _BLOCK + offset
        buffer[:] = memoryview(self.memory)[start : start + len(buffer)]

    def writeblocks(self, block, buffer, offset=0):
        start = block * _BLOCK + offset
        self.memory[start : start + len(buffer)] = buffer

    def ioctl(self, request, argument):
        if request == 4:
            return _BLOCKS
        if request == 5:
            return _BLOCK
        if request == 6:
            start = argument * _BLOCK
            self.memory[start : start + _BLOCK] = _ERASED
        return 0


def _mount():
    disk = PsramDisk()
    try:
        vfs.mount(vfs.VfsLfs2(disk), "/")
    except OSError:
        vfs.VfsLfs2.mkfs(disk)
        vfs.mount(vfs.VfsLfs2(disk), "/")


_mount()
