# SPDX-License-Identifier: MIT
"""The ledger: which report numbers are spent, and how much of the privacy budget.

A number is spent when it is reserved, whether or not its report is sent. Numbers are reserved in blocks, on flash,
before the first one is used, and are paid from the token bucket at that moment. So a power cut may skip numbers but
cannot repeat one, and the flash never records less than was spent.

In any window of `period` seconds at most `quota` numbers are handed out (SPEC section 10). Let the burst be b and the
block m. The bucket holds b - m + 1 tokens and gains quota + 1 - b per period. A window begins with at most m - 1
numbers left of a paid block, finds at most b - m + 1 tokens, and gains less than quota + 1 - b more: together less
than quota + 1. A ledger that begins above number 1 starts with an empty bucket, as the device
may just have used its tokens. One that begins at 1 starts full.

The bucket's level is saved with each reservation. Between reservations it only grows, so the saved level is safe
after a reboot.

If one copy of the record is damaged or missing, it may have been the newest, and the other copy is one reservation
behind. The ledger then skips a block of the largest size and owes it to the bucket. Both copies are written before
the first number is used, so that a missing copy is noticed.

With verified coins (SPEC section 13) only some numbers may have a report. `usable` returns them. The others are skipped
and cost neither quota nor epsilon, but the lifetime counts them.

Numbers begin at the bundle's `first_number` if that is higher, and end at its `last_number`. If both copies are lost,
only a bundle with a higher `first_number` than all before says where to continue. The highest `first_number` applied
so far has a record of its own. If the ledger is lost and that record is doubtful too, the device stops.

Flash wear: one record of 45 bytes per block of numbers (up to 32 reports); with deep sleep three per report.
"""

from peel_device.bucket import MICRO, Bucket
from peel_device.errors import StorageError
from peel_device.storage import Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Sequence

    from peel_device.interfaces import Clock, Files

    Usable = Callable[[int, int], list[int]]

NUMBER_MAX = (1 << 48) - 1
BLOCK_MAX = 32
# next number to reserve, epsilon spent (2^-20), saved micro-tokens (two's complement), milliseconds of sleep begun
_SIZES = (6, 12, 8, 8)
_LEVEL_SPAN = 1 << 64
_NUMBER_SIZE = 6


def burst_size(quota: int) -> int:
    """Return how many numbers may be handed out at once: an eighth of the quota, so that the rest is spread evenly."""
    return max(1, quota // 8)


def block_size(quota: int, deep_sleep: bool) -> int:
    """Return the most numbers per reservation: half a burst, as the rest of a block may be used together with the next
    block; 1 with deep sleep, where every report is a reboot.
    """
    if deep_sleep:
        return 1
    return min(BLOCK_MAX, (burst_size(quota) + 1) // 2)


class Ledger:
    """Hands out report numbers, each at most once, no faster than the quota allows."""

    def __init__(
        self,
        files: "Files",
        path: str,
        clock: "Clock",
        epsilon_q20: int,
        quota: int,
        period_s: int,
        block: int,
        lifetime: int | None = None,
        last: int = NUMBER_MAX,
        usable: "Usable | None" = None,
    ) -> None:
        """`usable(start, count)` returns up to `count` numbers from `start` on that may have a report. None: all may."""
        self._slots = Slots(files, path, sum(_SIZES))
        self._followed = Slots(files, path + "_first", _NUMBER_SIZE)
        self._clock = clock
        self._epsilon = epsilon_q20
        self._block = block
        self._lifetime = lifetime
        self._usable = usable
        self._last = min(last, NUMBER_MAX - 1)  # the next one is stored too
        burst = burst_size(quota)
        self._capacity = burst - block + 1
        self._bucket = Bucket(quota + 1 - burst, period_s, self._capacity)
        self._next = 0
        self._end = 0
        self.spent_q20 = 0

    def start(self, first: int, woke_from_sleep: bool) -> None:
        """Read the ledger, or begin one at number `first`. Credit a deep sleep that was not cut short."""
        followed = self._first_followed()
        try:
            record = self._slots.read()
        except StorageError:
            if not followed or followed >= first:
                raise
            record = None
        if record is None and (followed is None or followed >= first):
            raise StorageError("the ledger is gone: get a fresh bundle for this device and flash it again")
        if record is None:
            self._begin(first)
        else:
            self._go_on(record, first, woke_from_sleep)
        if followed is None or followed < first:
            for _ in range(2):
                self._followed.write(first.to_bytes(_NUMBER_SIZE, "little"))
        self._next = self._end

    def applied(self, first: int) -> bool:
        """Whether a bundle with this `first_number` may have been applied before."""
        followed = self._first_followed()
        return followed is None or followed >= first

    def _first_followed(self) -> int | None:
        """Return the highest `first_number` applied so far, 0 if there was none, or None if the record is doubtful."""
        try:
            record = self._followed.read()
        except StorageError:
            return None
        if self._followed.damaged:
            return None
        return int.from_bytes(record, "little") if record else 0

    def _begin(self, first: int) -> None:
        # A device that begins above 1 has reported before, and may have just used all its saved tokens.
        self._bucket.start(self._clock.now(), self._capacity * MICRO if first == 1 else 0)
        self._end, self.spent_q20 = first, (first - 1) * self._epsilon
        for _ in range(2):  # both copies: one may be lost later, and an old copy must not become valid again
            self._write(self._end, self.spent_q20, 0)

    def _go_on(self, record: bytes, first: int, woke_from_sleep: bool) -> None:
        self._end, self.spent_q20, level, slept = _unpack(record)
        changed = slept > 0 or self._slots.copies < 2 or first > self._end
        # If a copy is damaged, this record may be the older one, whose sleep was credited before.
        credit = slept if woke_from_sleep and not self._slots.damaged else 0
        if first > self._end:
            self._end = first
        self._bucket.start(self._clock.now(), level)
        self._bucket.credit(credit)
        if self._slots.damaged:
            self._bucket.owe(BLOCK_MAX)
            self._end += BLOCK_MAX
            self.spent_q20 += BLOCK_MAX * self._epsilon
        if changed:  # before any use, so that a sleep is credited once
            self._write(self._end, self.spent_q20, 0)

    @property
    def left(self) -> int | None:
        """The numbers that the lifetime still allows; None if it is unlimited."""
        return None if self._lifetime is None else max(0, self._lifetime + 1 - self._next)

    def take(self) -> int | None:
        """Return an unused number; None while the quota is used up, or for good once the lifetime is."""
        if self._usable is not None and self._next < self._end:
            self._next = min(self._usable(self._next, 1) + [self._end])
        if self._next >= self._end and not self._reserve():
            return None
        number = self._next
        self._next += 1
        return number

    def skip(self, number: int) -> None:
        """Continue above a number that was used but is missing here, as this ledger is an old copy. Keep no saved tokens."""
        end = max(self._end, min(number + 1, NUMBER_MAX))
        self.spent_q20 += (end - self._end) * self._epsilon
        self._next = self._end = end
        self._bucket.start(self._clock.now(), min(0, self._bucket.micro_tokens()))
        self._write(end, self.spent_q20, 0)

    def wait(self) -> int:
        """Return the milliseconds until `take` can succeed."""
        if self._next < self._end:
            return 0
        self._bucket.fill(self._clock.now())
        return self._bucket.wait()

    def prepare_sleep(self, milliseconds: int) -> None:
        """Record that the device is about to sleep, so that the time asleep counts if it wakes normally."""
        self._bucket.fill(self._clock.now())
        self._write(self._end, self.spent_q20, milliseconds)

    @property
    def next_number(self) -> int:
        """The lowest number that is not known to be spent."""
        return self._next

    def _reserve(self) -> bool:
        if self.left == 0:
            return False
        most = min(self._block, self._last + 1 - self._end)
        if most <= 0:
            raise StorageError("all report numbers of this bundle are spent: get a fresh one for this device")
        self._bucket.fill(self._clock.now())
        if self.left is not None:
            most = min(most, self.left)
        numbers: "Sequence[int]" = range(self._end, self._end + most)
        if self._usable is not None:
            numbers = self._usable(self._end, most)
        count = self._bucket.take(len(numbers))
        if not count:
            return False
        end, spent = numbers[count - 1] + 1, self.spent_q20 + count * self._epsilon
        try:
            self._write(end, spent, 0)
        except OSError:
            self._bucket.give_back(count)
            raise
        self._next, self._end, self.spent_q20 = numbers[0], end, spent
        return True

    def _write(self, end: int, spent: int, slept: int) -> None:
        values = (end, spent, self._bucket.micro_tokens() % _LEVEL_SPAN, slept)
        self._slots.write(b"".join([value.to_bytes(size, "little") for value, size in zip(values, _SIZES)]))


def _unpack(record: bytes) -> list[int]:
    values = []
    at = 0
    for size in _SIZES:
        values.append(int.from_bytes(record[at : at + size], "little"))
        at += size
    if values[2] >= _LEVEL_SPAN // 2:
        values[2] -= _LEVEL_SPAN
    return values
