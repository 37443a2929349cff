# SPDX-License-Identifier: MIT
"""Files on the board's flash.

LittleFS commits a file when it is closed; FAT does not promise that, so it is not supported.
"""

import errno
import os


class FlashFiles:
    """The application's view of the mounted file system."""

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes, or None when there is no such file. Raises OSError when it cannot be read."""
        try:
            with open(path, "rb") as file:
                data: bytes = file.read()
                return data
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise  # "unreadable" is not "absent": a ledger taken for new would repeat numbers
            return None

    def write(self, path: str, data: bytes) -> None:
        """Replace a file. It is on flash when this returns."""
        with open(path, "wb") as file:
            file.write(data)

    def remove(self, path: str) -> None:
        """Remove a file that may be absent."""
        try:
            os.remove(path)
        except OSError:
            if self.read(path) is not None:
                raise

    def names(self, folder: str) -> list[str]:
        """Names in a folder, in no order."""
        return os.listdir(folder)

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it."""
        built = ""
        for part in path.split("/"):
            built += part
            if built:
                try:
                    os.mkdir(built)
                except OSError:
                    os.stat(built)  # it is there already, or cannot be: then this raises
            built += "/"
