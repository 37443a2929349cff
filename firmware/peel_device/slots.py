# SPDX-License-Identifier: MIT
"""A small record that is replaced atomically, even if the power is cut.

Two files are written in turn: `<path>.0` and `<path>.1`. A cut can tear the one being written but not the other, so
the record is then either the old or the new one. The file system only has to keep a closed file.

Worn flash can damage or lose a finished copy too. Then the older one is read, and `damaged` says that the record may
be older than the last one written. A record that was written once has one copy, and its loss looks like a new device:
callers that must notice the loss write the record twice.
"""

from peel_device.checksum import sealed, unsealed
from peel_device.errors import StorageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.interfaces import Files

_MARK = b"PL1"
_HEAD = len(_MARK) + 4


class Slots:
    """One record of `size` bytes in two files."""

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
