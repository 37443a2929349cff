# SPDX-License-Identifier: MIT
"""Files on the board's flash.

LittleFS commits a file when it is closed; FAT does not promise that, so it is not supported.
"""

import errno
import os


class FlashFiles:
    """The mounted file system."""

    def read(self, path: str) -> bytes | None:
        """Return a file's bytes, or None if it does not exist. Raises OSError if it cannot be read."""
        try:
            with open(path, "rb") as file:
                data: bytes = file.read()
                return data
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise  # an unreadable ledger must not be taken for an absent one: that would repeat numbers
            return None

    def write(self, path: str, data: bytes) -> None:
        """Replace a file. It is on flash when this returns."""
        with open(path, "wb") as file:
            file.write(data)

    def remove(self, path: str) -> None:
        """Remove a file if it exists."""
        try:
            os.remove(path)
        except OSError:
            if self.read(path) is not None:
                raise

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, in no particular order."""
        return os.listdir(folder)

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents."""
        built = ""
        for part in path.split("/"):
            built += part
            if built:
                try:
                    os.mkdir(built)
                except OSError:
                    os.stat(built)  # raises if the folder is not there
            built += "/"
