# SPDX-License-Identifier: MIT
# Files in RAM, for boards without a file system: enough to write and import a module.
import io

import vfs


class RamFile(io.IOBase):
    """A file as the pieces in which it was written, as a small heap seldom has one block for all of it."""

    def __init__(self, files, path, mode):
        self.files, self.path, self.mode = files, path, mode
        self.pieces = [] if "w" in mode else files[path]
        self.piece = self.at = 0

    def write(self, data):
        if data:
            self.pieces.append(bytes(data))
        return len(data)

    def readinto(self, target):
        done = 0
        while done < len(target) and self.piece < len(self.pieces):
            some = self.pieces[self.piece][self.at : self.at + len(target) - done]
            target[done : done + len(some)] = some
            done += len(some)
            self.at += len(some)
            if self.at == len(self.pieces[self.piece]):
                self.piece, self.at = self.piece + 1, 0
        return done

    def read(self, count=-1):
        if count < 0:
            count = sum(len(piece) for piece in self.pieces[self.piece :]) - self.at
        some = bytearray(count)
        return bytes(some[: self.readinto(some)])

    def ioctl(self, request, argument):
        if request == 4:
            self.close()
        return 0

    def close(self):
        if "w" in self.mode:
            self.files[self.path] = self.pieces

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class RamFiles:
    def __init__(self):
        self.files = {}

    def mount(self, readonly, make):
        pass

    def umount(self):
        pass

    def chdir(self, path):
        pass

    def stat(self, path):
        path = path.lstrip("/")
        if path not in self.files:
            raise OSError(2)
        return (0x8000, 0, 0, 0, 0, 0, sum(len(piece) for piece in self.files[path]), 0, 0, 0)

    def open(self, path, mode):
        path = path.lstrip("/")
        if "w" not in mode and path not in self.files:
            raise OSError(2)
        return RamFile(self.files, path, mode)

    def remove(self, path):
        del self.files[path.lstrip("/")]


vfs.mount(RamFiles(), "/")
