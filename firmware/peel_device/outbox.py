# SPDX-License-Identifier: MIT
"""The outbox: sealed frames on flash until the broker has acknowledged them.

One small file per frame, named by its report number, so that putting and removing are single steps for the file
system. A full outbox, or a full flash, drops its oldest frame; a file that fails its checksum, torn or gone bad, is
dropped too. Drops are counted on flash, and before the file goes: the record says how many, up to which number, and
which damaged one was the last, so a cut in between counts no drop twice. A file that cannot be read right now is kept:
the next round may have more luck.

Flash wear: one file made and one removed per report; while full and offline also one record of 31 bytes per report.
"""

from peel_device.checksum import sealed, unsealed
from peel_device.errors import StorageError
from peel_device.slots import Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.interfaces import Files

_NAME_DIGITS = 12
_DROPS_SIZE = 20  # drops (8), the highest number dropped for want of room (6), the last damaged one (6)


class Outbox:
    """At most `limit` frames, in the order of their numbers."""

    def __init__(self, files: "Files", folder: str, limit: int) -> None:
        self._files = files
        self._folder = folder
        self._limit = limit
        self._drops = Slots(files, folder + "/drops", _DROPS_SIZE)
        self._numbers: list[int] = []
        self._dropped_through = 0
        self._last_damaged = 0
        self.dropped = 0

    def start(self) -> None:
        """Find what a former run left, and clear away what a power cut tore."""
        self._files.make_folder(self._folder)
        record = self._read_drops()
        if record is None:
            for _ in range(2):  # both copies now, so that a full flash still has room to count a drop
                self._count()
        else:
            self.dropped = int.from_bytes(record[:8], "little")
            self._dropped_through = int.from_bytes(record[8:14], "little")
            self._last_damaged = int.from_bytes(record[14:], "little")
        found = [_number(name) for name in self._files.names(self._folder)]
        self._numbers = sorted([number for number in found if number is not None])
        for number in list(self._numbers):
            if number <= self._dropped_through:
                self.remove([number])
            else:
                self._load(number)

    def _read_drops(self) -> bytes | None:
        try:
            return self._drops.read()
        except StorageError:
            return None  # a count that is lost begins again; no frame depends on it

    def __len__(self) -> int:
        return len(self._numbers)

    def put(self, number: int, frame: bytes) -> None:
        """Store a frame, durable when this returns. Numbers only rise."""
        while len(self._numbers) >= self._limit:
            self._drop_oldest()
        try:
            self._files.write(self._path(number), sealed(frame))
        except OSError:
            self._files.remove(self._path(number))
            if not self._numbers:
                raise
            self._drop_oldest()  # a full flash: make room once, then give up
            self._files.write(self._path(number), sealed(frame))
        self._numbers.append(number)

    def oldest(self, count: int) -> list[tuple[int, bytes]]:
        """Return up to `count` frames with their numbers, oldest first."""
        found: "list[tuple[int, bytes]]" = []
        for number in list(self._numbers):
            if len(found) == count:
                break
            frame = self._load(number)
            if frame is not None:
                found.append((number, frame))
        return found

    def make_room(self) -> bool:
        """Drop the oldest frame, counted, for the sake of something that cannot wait. False when there is none."""
        if not self._numbers:
            return False
        self._drop_oldest()
        return True

    def remove(self, numbers: list[int]) -> None:
        """Forget frames that the broker has acknowledged."""
        for number in numbers:
            self._files.remove(self._path(number))
            self._numbers.remove(number)

    def _drop_oldest(self) -> None:
        self._dropped_through = self._numbers[0]
        self._drop(self._numbers[0])

    def _drop(self, number: int) -> None:
        self.dropped += 1
        counted = self._count()
        self.remove([number])
        if not counted:
            self._count()  # now there is room; if not, the next drop writes the sum

    def _count(self) -> bool:
        """Write the count of drops. False when the flash does not take it: that is no reason to keep the rest waiting."""
        values = ((self.dropped, 8), (self._dropped_through, 6), (self._last_damaged, 6))
        try:
            self._drops.write(b"".join([value.to_bytes(size, "little") for value, size in values]))
        except OSError:
            return False
        return True

    def _load(self, number: int) -> bytes | None:
        """Return a frame; None for one that cannot be read now, and for a damaged one, which is dropped."""
        try:
            data = self._files.read(self._path(number))
        except OSError:
            return None  # a worn flash can fail to read what it holds, and succeed the next time
        frame = unsealed(data or b"")
        if not frame and number == self._last_damaged:
            self.remove([number])  # a power cut came between counting and removing
        elif not frame:
            self._last_damaged = number
            self._drop(number)
        return frame or None

    def _path(self, number: int) -> str:
        return "%s/%012x" % (self._folder, number)


def _number(name: str) -> int | None:
    if len(name) != _NAME_DIGITS:
        return None
    try:
        return int(name, 16)
    except ValueError:
        return None
