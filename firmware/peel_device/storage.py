# SPDX-License-Identifier: MIT
"""Storage on the board's flash: checksums, files, and small records that are replaced atomically.

LittleFS commits a file when it is closed; FAT does not promise that, so it is not supported. A CRC-32 (IEEE 802.3) tells
a complete write from a torn one.
"""

import binascii
import errno
import os

from peel_device.errors import StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from peel_device.interfaces import Files

_NIBBLES = (
    0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
    0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
)  # fmt: skip


def portable_crc32(data: bytes) -> int:
    """Return the CRC-32, four bits at a time, for builds of MicroPython whose binascii lacks it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        crc = (crc >> 4) ^ _NIBBLES[crc & 15]
        crc = (crc >> 4) ^ _NIBBLES[crc & 15]
    return crc ^ 0xFFFFFFFF


crc32: "Callable[[bytes], int]" = getattr(binascii, "crc32", portable_crc32)


def sealed(data: bytes) -> bytes:
    """Return data with its checksum appended."""
    return data + crc32(data).to_bytes(4, "little")


def unsealed(data: bytes) -> bytes | None:
    """Return the data without its checksum, or None if the checksum is wrong."""
    if len(data) < 4 or crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
        return None
    return data[:-4]


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


_MARK = b"PL1"
_HEAD = len(_MARK) + 4


class Slots:
    """One record of `size` bytes in two files, which is replaced atomically even if the power is cut.

    The files `<path>.0` and `<path>.1` are written in turn. A cut can tear the one being written but not the other, so the
    record is then either the old or the new one. The file system only has to keep a closed file.

    Worn flash can damage or lose a finished copy too. Then the older one is read, and `damaged` says that the record may
    be older than the last one written. A record that was written once has one copy, and its loss looks like a new device:
    callers that must notice the loss write the record twice.
    """

    def __init__(self, files: "Files", path: str, size: int) -> None:
        self._files = files
        self._path = path
        self._size = size
        self._sequence = 0
        self._slot = 0
        self.damaged = False
        self.copies = 0

    def read(self) -> bytes | None:
        """Return the newest valid record, or None if none was ever completed. Sets `copies` and `damaged`.

        `damaged` means that a copy is invalid, or missing although both were written. Raises StorageError if both files exist
        and neither is valid, which no power cut causes.
        """
        newest = None
        newest_sequence = 0
        present = whole = 0
        for slot in (0, 1):
            data = self._read(slot)
            present += data is not None
            body = self._body(data)
            if body is not None:
                whole += 1
                sequence = int.from_bytes(body[len(_MARK) : _HEAD], "little")
                if sequence > newest_sequence:
                    newest_sequence, newest = sequence, body[_HEAD:]
                    self._sequence, self._slot = sequence, slot
        self.copies = whole
        self.damaged = whole < (2 if newest_sequence > 1 else present)
        if newest is None and present == 2:
            raise StorageError(
                "both copies of %s are damaged: get a fresh bundle for this device and flash it again" % self._path
            )
        return newest

    def write(self, record: bytes) -> None:
        """Replace the record. It is durable when this returns; after an exception the old record remains."""
        if len(record) != self._size:
            raise ValueError("%s: a record must have %d bytes, got %d" % (self._path, self._size, len(record)))
        slot = 1 - self._slot
        sequence = self._sequence + 1
        self._files.write(self._name(slot), sealed(_MARK + sequence.to_bytes(4, "little") + record))
        self._slot, self._sequence = slot, sequence

    def _read(self, slot: int) -> bytes | None:
        try:
            return self._files.read(self._name(slot))
        except OSError:
            return b""  # present but unreadable, which is not the same as absent

    def _name(self, slot: int) -> str:
        return "%s.%d" % (self._path, slot)

    def _body(self, data: bytes | None) -> bytes | None:
        if data is None or len(data) != _HEAD + self._size + 4 or data[: len(_MARK)] != _MARK:
            return None
        return unsealed(data)
