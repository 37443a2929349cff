"""The outbox: sealed frames on flash until the broker has acknowledged them.

One small file per frame, named by its report number, so that putting and removing are single steps for the file
system; a torn file fails its checksum and is removed at the next start. A full outbox drops its oldest frame. Drops
are counted on flash, and before the file goes: the record says how many and up to which number, so a cut in between
counts no drop twice.

Flash wear: one file made and one removed per report; while full and offline also one record of 25 bytes per report.
"""

from peel_device.checksum import sealed, unsealed
from peel_device.slots import Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.interfaces import Files

_NAME_DIGITS = 12
_DROPS_SIZE = 14  # drops (8), the highest number dropped (6)


class Outbox:
    """At most `limit` frames, in the order of their numbers."""

    def __init__(self, files: "Files", folder: str, limit: int) -> None:
        self._files = files
        self._folder = folder
        self._limit = limit
        self._drops = Slots(files, folder + "/drops", _DROPS_SIZE)
        self._numbers: list[int] = []
        self._dropped_through = 0
        self.dropped = 0

    def start(self) -> None:
        """Find what a former run left, and clear away what a power cut tore."""
        self._files.make_folder(self._folder)
        record = self._drops.read()
        if record is None:
            for _ in range(2):  # both copies now, so that a full flash still has room to count a drop
                self._drops.write(bytes(_DROPS_SIZE))
        else:
            self.dropped = int.from_bytes(record[:8], "little")
            self._dropped_through = int.from_bytes(record[8:], "little")
        self._numbers = []
        for name in self._files.names(self._folder):
            number = _number(name)
            if number is not None:
                if number <= self._dropped_through or self._load(number) is None:
                    self._files.remove(self._path(number))
                else:
                    self._numbers.append(number)
        self._numbers.sort()

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
        found = []
        for number in self._numbers[:count]:
            frame = self._load(number)
            if frame is not None:
                found.append((number, frame))
            else:
                self.remove([number])  # gone bad on flash since the start
        return found

    def remove(self, numbers: list[int]) -> None:
        """Forget frames that the broker has acknowledged."""
        for number in numbers:
            self._files.remove(self._path(number))
            self._numbers.remove(number)

    def _drop_oldest(self) -> None:
        number = self._numbers[0]
        self._drops.write((self.dropped + 1).to_bytes(8, "little") + number.to_bytes(6, "little"))
        self.dropped += 1
        self._dropped_through = number
        self.remove([number])

    def _load(self, number: int) -> bytes | None:
        try:
            return unsealed(self._files.read(self._path(number)) or b"") or None
        except OSError:
            return None  # a worn flash can fail to read what it holds

    def _path(self, number: int) -> str:
        return "%s/%012x" % (self._folder, number)


def _number(name: str) -> int | None:
    if len(name) != _NAME_DIGITS:
        return None
    try:
        return int(name, 16)
    except ValueError:
        return None
