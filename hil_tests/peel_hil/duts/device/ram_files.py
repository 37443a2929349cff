# SPDX-License-Identifier: MIT
# Files in RAM, for boards without a file system of their own: enough to write a module and to import it.
import io

import vfs


class RamFile(io.IOBase):
    def __init__(self, files, path, mode):
        self.files, self.path, self.mode = files, path, mode
        self.data = bytearray() if "w" in mode else files[path]
        self.at = 0

    def write(self, data):
        self.data.extend(data)
        return len(data)

    def readinto(self, target):
        some = self.data[self.at : self.at + len(target)]
        target[: len(some)] = some
        self.at += len(some)
        return len(some)

    def read(self, count=-1):
        end = len(self.data) if count < 0 else self.at + count
        some, self.at = bytes(self.data[self.at : end]), min(end, len(self.data))
        return some

    def ioctl(self, request, argument):
        if request == 4:
            self.close()
        return 0

    def close(self):
        if "w" in self.mode:
            self.files[self.path] = self.data

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
        return (0x8000, 0, 0, 0, 0, 0, len(self.files[path]), 0, 0, 0)

    def open(self, path, mode):
        path = path.lstrip("/")
        if "w" not in mode and path not in self.files:
            raise OSError(2)
        return RamFile(self.files, path, mode)

    def remove(self, path):
        del self.files[path.lstrip("/")]


vfs.mount(RamFiles(), "/")
