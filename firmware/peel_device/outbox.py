# SPDX-License-Identifier: MIT
"""The outbox: sealed frames on flash until the gateway has confirmed that it stored them.

A frame waits to be sent. Once the broker has acknowledged it, it waits for a receipt. A receipt settles it, and it is
removed. With `confirm` = `broker` the acknowledgement is enough. Frames are sent in the order of their numbers, so one
number separates the two groups: the broker has acknowledged the frames up to it.

Each frame is a small file named by its report number, so adding and removing are single file system operations. A full
outbox, or a full flash, drops its oldest frame. A file with a wrong checksum, torn or decayed, is dropped too. Drops are
counted on flash before the file is removed. The record holds the count, the highest number dropped for lack of room and
the last damaged number, so a power cut in between counts no drop twice. A file that cannot be read is kept and tried
again later. The oldest frame is one that the broker has acknowledged, if there is any such frame.

Flash wear: one file made and one removed per report; while full and unconfirmed also one record of 37 bytes per report.
Before deep sleep the same record stores the highest acknowledged number, once per 8 frames that no receipt has settled.
"""

from peel_device.errors import StorageError
from peel_device.storage import Slots, sealed, unsealed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from peel_device.interfaces import Files

_NAME_DIGITS = 12
# the count of drops; the highest number dropped for lack of room; the last damaged one; the highest acknowledged one
_RECORD = (8, 6, 6, 6)
_NOTE_EVERY = 8  # the frames of one message: sending them again costs less than a write


class Outbox:
    """At most `limit` frames, in the order of their numbers.

    `feed` is called before each removal: one receipt may settle thousands of frames, and flash is slow.
    """

    def __init__(
        self,
        files: "Files",
        folder: str,
        limit: int,
        confirmed_by_broker: bool = False,
        feed: "Callable[[], None]" = lambda: None,
    ) -> None:
        self._files = files
        self._feed = feed
        self._folder = folder
        self._limit = limit
        self._confirmed_by_broker = confirmed_by_broker
        self._slots = Slots(files, folder + "/state", sum(_RECORD))
        self._numbers: list[int] = []
        self._taken = 0
        self.offered = 0  # the highest number that this run has returned from `unsent`
        self._noted = 0
        self._dropped_through = 0
        self._last_damaged = 0
        self.dropped = 0

    def start(self) -> None:
        """Find the frames of a former run, and remove those that a power cut has torn."""
        self._files.make_folder(self._folder)
        record = self._read_record()
        if record is None:
            for _ in range(2):  # both copies now, so that a drop can be counted on a full flash
                self._write_record()
        else:
            self.dropped = int.from_bytes(record[:8], "little")
            self._dropped_through = int.from_bytes(record[8:14], "little")
            self._last_damaged = int.from_bytes(record[14:20], "little")
            self._taken = self._noted = int.from_bytes(record[20:], "little")
        found = [_number(name) for name in self._files.names(self._folder)]
        self._numbers = sorted([number for number in found if number is not None])
        for number in list(self._numbers):
            if number <= self._dropped_through:
                self._remove([number])
            else:
                self._load(number)

    def _read_record(self) -> bytes | None:
        try:
            return self._slots.read()
        except StorageError:
            return None  # a lost count starts again at 0; no frame depends on it

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def unconfirmed(self) -> int:
        """The count of frames that the broker has acknowledged and no receipt has settled. Called often, so it makes no list."""
        low, high = 0, len(self._numbers)
        while low < high:
            middle = (low + high) // 2
            if self._numbers[middle] <= self._taken:
                low = middle + 1
            else:
                high = middle
        return low

    @property
    def waiting(self) -> int:
        """The count of frames still to be sent."""
        return len(self._numbers) - self.unconfirmed

    @property
    def oldest_unconfirmed(self) -> int | None:
        """The lowest number that is acknowledged by the broker but not settled."""
        return self._numbers[0] if self._numbers and self._numbers[0] <= self._taken else None

    def put(self, number: int, frame: bytes) -> None:
        """Store a frame, durable when this returns. Numbers must rise."""
        while len(self._numbers) >= self._limit:
            self._drop_oldest()
        try:
            self._files.write(self._path(number), sealed(frame))
        except OSError:
            self._files.remove(self._path(number))
            if not self._numbers:
                raise
            self._drop_oldest()  # the flash may be full: make room once, then give up
            self._files.write(self._path(number), sealed(frame))
        self._numbers.append(number)

    def unsent(self, count: int) -> list[tuple[int, bytes]]:
        """Return up to `count` frames to send, with their numbers, oldest first."""
        found: "list[tuple[int, bytes]]" = []
        for number in self._numbers[self.unconfirmed :]:
            if len(found) == count:
                break
            frame = self._load(number)
            if frame is not None:
                found.append((number, frame))
                self.offered = max(self.offered, number)
        return found

    def make_room(self) -> bool:
        """Drop the oldest frame, counted, to make room for something more urgent. Return False if there is no frame."""
        if not self._numbers:
            return False
        self._drop_oldest()
        return True

    def sent(self, numbers: list[int]) -> None:
        """Record that the broker has acknowledged these frames, the oldest of the waiting ones."""
        if self._confirmed_by_broker:
            self._remove(numbers)
        else:
            self._taken = max(numbers)

    def send_again(self) -> None:
        """Mark all stored frames as still to be sent."""
        self._taken = 0

    def settle(self, runs: "list[tuple[int, int]]") -> None:
        """Remove the frames whose numbers lie in these runs, each given as (first, last)."""
        for number in list(self._numbers):
            if any(first <= number <= last for first, last in runs):
                try:
                    self._remove([number])
                except OSError:
                    pass  # worn flash; the next receipt settles it again

    def discard(self, unwanted: "Callable[[int], bool]") -> None:
        """Remove frames by their numbers. If the flash cannot remove one, this run does not send it."""
        for number in [each for each in self._numbers if unwanted(each)]:
            try:
                self._remove([number])
            except OSError:
                self._numbers.remove(number)

    @property
    def numbers(self) -> list[int]:
        """The numbers of all frames, ascending. Not to be changed."""
        return self._numbers

    def note_sent(self) -> None:
        """Store on flash how far the broker has acknowledged, if that saves more than the write costs."""
        if len([number for number in self._numbers if self._noted < number <= self._taken]) >= _NOTE_EVERY:
            self._noted = self._taken
            self._write_record()

    def _remove(self, numbers: list[int]) -> None:
        for number in numbers:
            self._feed()
            self._files.remove(self._path(number))
            self._numbers.remove(number)

    def _drop_oldest(self) -> None:
        self._dropped_through = self._numbers[0]
        self._drop(self._numbers[0])

    def _drop(self, number: int) -> None:
        self.dropped += 1
        counted = self._write_record()
        self._remove([number])
        if not counted:
            self._write_record()  # there is room now; if not, the next drop writes the total

    def _write_record(self) -> bool:
        """Write the counts. Return False if the flash cannot take them, which must not stop the rest."""
        values = (self.dropped, self._dropped_through, self._last_damaged, self._noted)
        try:
            self._slots.write(b"".join([value.to_bytes(size, "little") for value, size in zip(values, _RECORD)]))
        except OSError:
            return False
        return True

    def _load(self, number: int) -> bytes | None:
        """Return a frame. Return None if it cannot be read now, or is damaged; a damaged one is dropped."""
        try:
            data = self._files.read(self._path(number))
        except OSError:
            return None  # worn flash can fail to read once and succeed the next time
        frame = unsealed(data or b"")
        if not frame and number == self._last_damaged:
            self._remove([number])  # a power cut came between the count and the removal
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
