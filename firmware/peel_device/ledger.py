# SPDX-License-Identifier: MIT
"""The ledger: which report numbers are spent, and how much of the budget.

Report numbers are the currency of privacy: a number is spent when it is reserved, sent or not. They are reserved in
blocks, on flash, before the first one is used, and paid for from the token bucket at that moment. So a power cut can
skip numbers and can never repeat one, and what is on flash never says less than what was spent.

In any window of `period` seconds at most `quota` numbers are handed out (SPEC section 10). With burst b, block m, a
bucket that holds b - m + 1 tokens and is given quota + 1 - b per period, a window begins with at most m - 1 numbers left
of a block that was paid for before, finds at most b - m + 1 tokens, and is given less than quota + 1 - b more: together
less than quota + 1. A ledger that cannot know what was used before it (an erased flash) begins with an empty bucket.

The bucket's level is saved with each reservation. Between two of them it only grows, so the saved level is a safe one
to go on with after a reboot.

A copy of the record that is not whole, or missing, may have been the newest: then the other copy is one reservation
behind. So a whole block of the largest size is skipped, and owed to the bucket; and both copies are there before the
first number is used, so that one that is missing is missed. Numbers also go on at the bundle's `first_number` if that
is higher, and end at its `last_number`. Where both copies are lost, only a bundle with a higher first number than any
before can say where to go on; which one the ledger has followed so far is kept in a record of its own, and where that
is doubtful, none can.

Flash wear: one record of 45 bytes per block of numbers (up to 32 reports); with deep sleep two per report.
"""

from peel_device.bucket import MICRO, Bucket
from peel_device.errors import StorageError
from peel_device.slots import Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.interfaces import Clock, Files

NUMBER_MAX = (1 << 48) - 1
BLOCK_MAX = 32
# next number to reserve, epsilon spent (2^-20), saved micro-tokens (two's complement), milliseconds of sleep begun
_SIZES = (6, 12, 8, 8)
_LEVEL_SPAN = 1 << 64
_NUMBER_SIZE = 6


def burst_size(quota: int) -> int:
    """The most numbers that are handed out at once: an eighth of the quota, so that seven eighths come evenly."""
    return max(1, quota // 8)


def block_size(quota: int, deep_sleep: bool) -> int:
    """The most numbers per reservation: half a burst, as the rest of a block may be used with the next one; one where
    every report is a reboot.
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
    ) -> None:
        self._slots = Slots(files, path, sum(_SIZES))
        self._followed = Slots(files, path + "_first", _NUMBER_SIZE)
        self._clock = clock
        self._epsilon = epsilon_q20
        self._block = block
        self._lifetime = lifetime
        self._last = min(last, NUMBER_MAX - 1)  # the next one is stored too
        burst = burst_size(quota)
        self._capacity = burst - block + 1
        self._bucket = Bucket(quota + 1 - burst, period_s, self._capacity)
        self._next = 0
        self._end = 0
        self.spent_q20 = 0

    def start(self, first: int, woke_from_sleep: bool) -> None:
        """Read the ledger and go on, or begin one at number `first`; credit a sleep that ran its course."""
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

    def _first_followed(self) -> int | None:
        """The highest first number that was followed, 0 when none was; None when nobody knows."""
        try:
            record = self._followed.read()
        except StorageError:
            return None
        if self._followed.damaged:
            return None
        return int.from_bytes(record, "little") if record else 0

    def _begin(self, first: int) -> None:
        # Whoever begins above 1 has reported before, and may have used all that it had saved a moment ago.
        self._bucket.start(self._clock.now(), self._capacity * MICRO if first == 1 else 0)
        self._end, self.spent_q20 = first, (first - 1) * self._epsilon
        for _ in range(2):  # one of them may be lost, and no copy of old is to come back to life
            self._write(self._end, self.spent_q20, 0)

    def _go_on(self, record: bytes, first: int, woke_from_sleep: bool) -> None:
        self._end, self.spent_q20, level, slept = _unpack(record)
        changed = slept > 0 or self._slots.copies < 2 or first > self._end
        credit = (
            slept if woke_from_sleep and not self._slots.damaged else 0
        )  # an old record's sleep was credited before
        if first > self._end:
            self._end = first
        self._bucket.start(self._clock.now(), level)
        self._bucket.credit(credit)
        if self._slots.damaged:
            self._bucket.owe(BLOCK_MAX)
            self._end += BLOCK_MAX
            self.spent_q20 += BLOCK_MAX * self._epsilon
        if changed:  # before any use, so that one sleep is credited once
            self._write(self._end, self.spent_q20, 0)

    @property
    def left(self) -> int | None:
        """How many numbers the lifetime still has; None where there is no such limit."""
        return None if self._lifetime is None else max(0, self._lifetime + 1 - self._next)

    def take(self) -> int | None:
        """Return a number that was never returned before, or None while the quota or for ever the lifetime is used up."""
        if self._next == self._end and not self._reserve():
            return None
        number = self._next
        self._next += 1
        return number

    def skip(self, number: int) -> None:
        """Go on above a number that was used and is not in this ledger, which is an old copy then. Nothing is saved up."""
        end = max(self._end, min(number + 1, NUMBER_MAX))
        self.spent_q20 += (end - self._end) * self._epsilon
        self._next = self._end = end
        self._bucket.start(self._clock.now(), min(0, self._bucket.micro_tokens()))
        self._write(end, self.spent_q20, 0)

    def wait(self) -> int:
        """Milliseconds until `take` can succeed."""
        if self._next < self._end:
            return 0
        self._bucket.fill(self._clock.now())
        return self._bucket.wait()

    def prepare_sleep(self, milliseconds: int) -> None:
        """Note that the device is about to sleep, so that the sleep counts as time if it is woken from it."""
        self._bucket.fill(self._clock.now())
        self._write(self._end, self.spent_q20, milliseconds)

    @property
    def next_number(self) -> int:
        """The lowest number that may not have been spent."""
        return self._next

    def _reserve(self) -> bool:
        if self.left == 0:
            return False
        most = min(self._block, self._last + 1 - self._end)
        if most <= 0:
            raise StorageError("all report numbers of this bundle are spent: get a fresh one for this device")
        self._bucket.fill(self._clock.now())
        count = self._bucket.take(most if self.left is None else min(most, self.left))
        if not count:
            return False
        end, spent = self._end + count, self.spent_q20 + count * self._epsilon
        try:
            self._write(end, spent, 0)
        except OSError:
            self._bucket.give_back(count)
            raise
        self._next, self._end, self.spent_q20 = self._end, end, spent
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
