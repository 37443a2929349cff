# SPDX-License-Identifier: MIT
"""The ledger: a power cut at any byte of any write never lowers it, repeats a number or corrupts it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peel_device.errors import StorageError
from peel_device.ledger import BLOCK_MAX, NUMBER_MAX, Ledger, block_size
from power_cut import FullFiles, ManualClock, MemoryFiles, WitnessFiles

EPSILON = 1 << 20
PERIOD_MS = 3_600_000


def open_ledger(
    files: MemoryFiles,
    clock: ManualClock | None = None,
    *,
    block: int = 4,
    quota: int = 100_000,
    woke: bool = False,
    first: int = 1,
    lifetime: int | None = None,
    last: int = NUMBER_MAX,
) -> Ledger:
    ledger = Ledger(files, "ledger", clock or ManualClock(), EPSILON, quota, 3600, block, lifetime, last)
    ledger.start(first, woke)
    return ledger


def open_saved_up(files: MemoryFiles, **settings: Any) -> Ledger:
    """Return a ledger whose bucket has had time to fill."""
    clock = ManualClock()
    ledger = open_ledger(files, clock, **settings)
    clock.at += PERIOD_MS
    return ledger


def test_numbers_rise_by_one_from_the_first() -> None:
    ledger = open_saved_up(MemoryFiles(), first=7, block=10)
    assert [ledger.take() for _ in range(10)] == list(range(7, 17))


def test_a_number_that_was_used_elsewhere_is_skipped_and_paid_for() -> None:
    files, clock = MemoryFiles(), ManualClock()
    ledger = open_ledger(files, clock, quota=80, block=4)
    assert ledger.take() == 1
    ledger.skip(1000)
    assert ledger.next_number == 1001
    assert ledger.spent_q20 == 1000 * EPSILON
    assert ledger.take() is None, "what was used in this period is not known, so the bucket is empty"
    assert open_ledger(files, clock, quota=80, block=4).next_number == 1001
    clock.at += PERIOD_MS
    assert ledger.take() == 1001
    ledger.skip(7)
    assert ledger.next_number > 1001, "it never goes back"


def test_a_ledger_that_is_skipped_beyond_its_bundle_says_so() -> None:
    ledger = open_saved_up(MemoryFiles(), last=500)
    ledger.skip(NUMBER_MAX)
    with pytest.raises(StorageError, match="all report numbers of this bundle are spent"):
        ledger.take()


def test_a_reboot_skips_at_most_a_block() -> None:
    files = MemoryFiles()
    used: list[int] = []
    for _ in range(20):
        ledger = open_ledger(files)
        used += [ledger.take() or 0 for _ in range(3)]
    assert used == sorted(set(used))
    assert all(after - before <= 4 for before, after in itertools.pairwise(used))


def test_the_budget_counts_every_reserved_number() -> None:
    files = MemoryFiles()
    ledger = open_ledger(files, block=8)
    ledger.take()
    assert ledger.spent_q20 == 8 * EPSILON
    assert open_ledger(files, block=8).spent_q20 == 8 * EPSILON


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 4, 32])
def test_a_power_cut_at_every_byte_of_every_write(block: int) -> None:
    """Simulate several reboots and sleeps. At every byte of every write, cut the power and check the next boot."""
    files = WitnessFiles()
    clock = ManualClock()
    highest = 0
    spent = 0

    def next_boot_is_sound(state: MemoryFiles) -> None:
        ledger = open_ledger(state, clock, block=block, woke=True)
        assert ledger.spent_q20 >= spent
        number = ledger.take()
        assert number is None or number > highest
        assert open_ledger(state, clock, block=block).spent_q20 >= ledger.spent_q20

    files.witness = next_boot_is_sound
    for boot in range(60):
        ledger = open_ledger(files, clock, block=block, woke=boot % 2 == 0)
        spent = max(spent, ledger.spent_q20)
        for _ in range(5 + 7 * block):
            number = ledger.take()
            if number is not None:
                assert number > highest
                highest = number
                spent = ledger.spent_q20
        clock.at += 60_000
        ledger.prepare_sleep(60_000)
    assert files.cuts > 100_000


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 200), st.integers(0, 3)), min_size=1, max_size=25))
def test_cut_after_cut(lives: list[tuple[int, int, int]]) -> None:
    """Many cuts in a row, each on the state that the one before left: numbers still only rise."""
    state = MemoryFiles()
    highest = spent = 0
    for takes, cut, tear in lives:
        files = CutFiles(state.kept, cut, tear)
        try:
            ledger = open_ledger(files, block=3)
            assert ledger.spent_q20 >= spent
            for _ in range(takes):
                number = ledger.take()
                assert number is not None and number > highest
                highest, spent = number, ledger.spent_q20
        except PowerCut:
            pass
        state = files


@pytest.mark.parametrize("block", [1, 4, pytest.param(32, marks=pytest.mark.slow)])
@pytest.mark.parametrize("harm", ["every bit", "unreadable", "missing"])
def test_bit_rot_in_any_copy_never_repeats_a_number(block: int, harm: str) -> None:
    """Simulate several boots. After each write damage each copy in turn and check the next boot."""
    files, clock = RottenFiles(), ManualClock()
    highest = looked = 0
    for boot in range(6):
        ledger = open_ledger(files, clock, block=block, woke=boot % 2 == 0)
        for _ in range(3 * block + 1):
            highest = ledger.take() or highest
            for copy in ("ledger.0", "ledger.1"):
                for state in files.spoiled(copy, harm):
                    again = open_ledger(state, clock, block=block, woke=True)
                    assert again.spent_q20 >= ledger.spent_q20
                    assert (again.take() or highest + 1) > highest
                    looked += 1
        ledger.prepare_sleep(60_000)
    assert looked > 36 * (40 if harm == "every bit" else 1)


def test_a_copy_that_goes_missing_after_a_power_cut_never_repeats_a_number() -> None:
    """Cut the power at any byte, let the device run for a while, then remove one of the two copies."""
    for cut in range(1, 700, 3):
        first = CutFiles({}, cut, 1)
        highest = 0
        with contextlib.suppress(PowerCut):
            ledger = open_ledger(first, block=2)
            for _ in range(9):
                highest = ledger.take() or highest
        for takes in range(3):
            state = MemoryFiles(first.kept)
            after = open_ledger(state, block=2)
            numbers = [highest, *(after.take() or 0 for _ in range(takes))]
            for copy in ("ledger.0", "ledger.1"):
                rest = MemoryFiles({name: data for name, data in state.kept.items() if name != copy})
                assert (open_saved_up(rest, block=2).take() or 0) > max(numbers), (cut, takes, copy)


def test_a_ledger_that_is_gone_is_not_begun_again_when_nobody_knows_which_bundle_it_followed() -> None:
    files = MemoryFiles()
    open_ledger(files).take()
    open_saved_up(files, first=500).take()
    followed = [name for name in files.kept if "first" in name]
    assert len(followed) == 2
    for lost in (*followed, None):
        rest = MemoryFiles({name: data for name, data in files.kept.items() if "first" in name and name != lost})
        with pytest.raises(StorageError, match="the ledger is gone"):
            open_ledger(rest, first=500)


def test_what_is_skipped_for_a_damaged_copy_is_paid_for() -> None:
    files = RottenFiles()
    ledger = open_ledger(files, block=1, quota=64)
    assert [ledger.take() for _ in range(8)] == list(range(1, 9))
    clock = ManualClock()
    (spoiled,) = files.spoiled(newest_copy(files), "unreadable")
    again = open_ledger(spoiled, clock, block=1, quota=64)
    assert again.take() is None
    assert open_ledger(spoiled, clock, block=1, quota=64).take() is None, "the debt survives a reboot"
    clock.at += BLOCK_MAX * (PERIOD_MS + 1) // 57  # the rate is quota + 1 - burst
    assert again.take() is None
    clock.at += 1
    assert again.take() == 8 + BLOCK_MAX, "the whole copy said that 8 was next"


def test_a_sleep_is_not_credited_again_from_an_older_copy() -> None:
    files = RottenFiles()
    ledger = open_ledger(files, block=1, quota=100)
    while ledger.take() is not None:
        pass
    ledger.prepare_sleep(36_000_000)
    open_ledger(files, block=1, quota=100, woke=True)
    (spoiled,) = files.spoiled(newest_copy(files), "unreadable")
    assert open_ledger(spoiled, block=1, quota=100, woke=True).take() is None


def newest_copy(files: MemoryFiles) -> str:
    return max(("ledger.0", "ledger.1"), key=lambda name: files.kept[name][3:7])


class RottenFiles(MemoryFiles):
    """A worn flash: a finished file can change, become unreadable, or disappear."""

    def __init__(self, kept: dict[str, bytes] | None = None, unreadable: Sequence[str] = ()) -> None:
        super().__init__(kept)
        self._unreadable = set(unreadable)

    def read(self, path: str) -> bytes | None:
        if path in self._unreadable:
            raise OSError(5, "cannot be read")
        return super().read(path)

    def write(self, path: str, data: bytes) -> None:
        self._unreadable.discard(path)
        super().write(path, data)

    def spoiled(self, path: str, harm: str) -> Iterator[RottenFiles]:
        """Yield this flash with one file damaged, in each of several ways."""
        if harm == "unreadable":
            yield RottenFiles(self.kept, [path] if path in self.kept else [])
            return
        if harm == "missing":
            yield RottenFiles({name: data for name, data in self.kept.items() if name != path})
            return
        content = self.kept.get(path, b"")
        for at in range(len(content)):
            flipped = content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
            yield RottenFiles({**self.kept, path: flipped})


def test_a_higher_first_number_is_followed_and_a_lower_one_is_not() -> None:
    files = MemoryFiles()
    for first, expected in ((1, 1), (1000, 1000), (1000, 1004), (7, 1008)):
        clock = ManualClock()
        ledger = open_ledger(files, clock, first=first)
        clock.at += 1000
        assert ledger.take() == expected


def test_a_new_device_has_saved_up_and_one_that_was_erased_has_not() -> None:
    new = open_ledger(MemoryFiles(), quota=32, block=2)
    assert [new.take() for _ in range(4)] == [1, 2, 3, None], "a burst of 4, less what the first block may leave"
    clock = ManualClock()
    erased = open_ledger(MemoryFiles(), clock, first=1000, quota=32, block=2)
    assert erased.take() is None
    clock.at += erased.wait()
    assert [erased.take(), erased.take()] == [1000, None]


def test_a_further_bundle_leaves_what_was_saved_as_it_was() -> None:
    files = MemoryFiles()
    assert open_ledger(files, quota=32, block=2).take() == 1
    jumped = open_ledger(files, first=1000, quota=32, block=2)
    assert [jumped.take(), jumped.take()] == [1000, None]


def test_a_fresh_bundle_repairs_two_damaged_copies_and_the_old_one_does_not() -> None:
    files = MemoryFiles()
    open_ledger(files).take()
    files.kept.update({"ledger.0": b"?", "ledger.1": b"?"})
    with pytest.raises(StorageError, match="both copies"):
        open_ledger(files)
    assert open_saved_up(files, first=500).take() == 500
    files.kept.update({"ledger.0": b"?", "ledger.1": b"?"})
    with pytest.raises(StorageError, match="both copies"):
        open_ledger(files, first=500)


def test_a_ledger_that_was_removed_is_not_begun_again() -> None:
    files = MemoryFiles()
    open_ledger(files).take()
    del files.kept["ledger.0"], files.kept["ledger.1"]
    with pytest.raises(StorageError, match="the ledger is gone"):
        open_ledger(files)
    assert open_saved_up(files, first=500).take() == 500


class PowerCut(BaseException):
    """The power is cut."""


class CutFiles(MemoryFiles):
    """Files that cut the power after so many bytes."""

    def __init__(self, kept: dict[str, bytes], budget: int, tear: int) -> None:
        super().__init__(kept)
        self._budget = budget
        self._tear = tear

    def write(self, path: str, data: bytes) -> None:
        if len(data) >= self._budget:
            done = data[: self._budget]
            rest = len(data) - len(done)
            tails = (b"", b"\xff" * rest, self.kept.get(path, b"")[len(done) :], bytes(range(rest)))
            self.kept[path] = done + tails[self._tear]
            raise PowerCut
        self._budget -= len(data)
        super().write(path, data)


def test_the_quota_holds_across_reboots() -> None:
    """However often it boots, a device takes at most burst plus rate times time."""
    files, clock = MemoryFiles(), ManualClock()
    first = open_ledger(files, clock, block=2, quota=16).next_number
    for boot in range(400):
        booted = ManualClock()  # ticks start at 0 again; time without power does not count
        ledger = open_ledger(files, booted, block=2, quota=16)
        while ledger.take() is not None:
            pass
        booted.at += 30_000
        clock.at += 30_000
        ledger.take()
        assert ledger._end - first <= 2 + clock.at * 15 / PERIOD_MS, boot


def test_an_empty_bucket_makes_the_device_wait() -> None:
    clock = ManualClock()
    ledger = open_ledger(MemoryFiles(), clock, block=1, quota=2)
    assert (ledger.take(), ledger.take()) == (1, None)
    assert ledger.wait() == PERIOD_MS // 2 + 1
    clock.at += PERIOD_MS // 2
    assert ledger.take() is None
    clock.at += 1
    assert ledger.take() == 2


@pytest.mark.parametrize(("woke", "expected"), [(True, 2), (False, None)])
def test_only_a_sleep_that_ran_its_course_counts_as_time(woke: bool, expected: int | None) -> None:
    files = MemoryFiles()
    ledger = open_ledger(files, block=1, quota=2)
    assert (ledger.take(), ledger.take()) == (1, None)
    ledger.prepare_sleep(PERIOD_MS // 2 + 1)
    assert open_ledger(files, block=1, quota=2, woke=woke).take() == expected
    assert open_ledger(files, block=1, quota=2, woke=True).take() is None, "one sleep is credited once"


def test_a_full_flash_gives_no_number_and_keeps_the_tokens() -> None:
    files = FullFiles(140)
    ledger = open_ledger(files, block=1, quota=16)
    files.kept["other"] = b"x" * 60
    with pytest.raises(OSError):
        ledger.take()
    del files.kept["other"]
    assert (ledger.take(), ledger.take(), ledger.take()) == (1, 2, None)


def test_a_damaged_ledger_stops_the_device() -> None:
    with pytest.raises(StorageError):
        open_ledger(MemoryFiles({"ledger.0": b"?", "ledger.1": b"?"}))


def test_when_all_numbers_are_spent_the_device_stops() -> None:
    ledger = open_ledger(MemoryFiles(), first=NUMBER_MAX)
    with pytest.raises(StorageError, match="all report numbers"):
        ledger.take()


@pytest.mark.parametrize("lifetime", [None, 1000])
def test_no_number_above_the_bundles_last_is_ever_used(lifetime: int | None) -> None:
    files, numbers = MemoryFiles(), [0]
    for _ in range(10):  # reboots, each of which loses the rest of a block
        ledger = open_ledger(files, block=4, last=30, lifetime=lifetime)
        with contextlib.suppress(StorageError):
            for _ in range(3):
                numbers.append(ledger.take() or 0)
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 30
    with pytest.raises(StorageError, match="all report numbers of this bundle"):
        open_ledger(files, block=4, last=30, lifetime=lifetime).take()
    assert open_ledger(files, block=4, first=31, last=60, lifetime=lifetime).take() == 31, "a fresh bundle goes on"


def test_no_number_above_the_lifetime_is_ever_used() -> None:
    files = MemoryFiles()
    ledger = open_ledger(files, lifetime=6)
    assert [ledger.take() for _ in range(5)] == [1, 2, 3, 4, 5]
    assert ledger.left == 1
    again = open_ledger(files, lifetime=6)
    assert (again.left, again.take()) == (0, None), "what a reboot skips is used up"
    assert again.spent_q20 == 6 * EPSILON
    assert open_saved_up(files, first=50, lifetime=6).take() is None
    assert open_saved_up(files, lifetime=60).take() == 50, "another profile may allow more"
    assert open_ledger(MemoryFiles()).left is None


@pytest.mark.parametrize(
    ("quota", "deep", "expected"), [(1, False, 1), (96, False, 6), (10**6, False, 32), (10**6, True, 1)]
)
def test_block_size(quota: int, deep: bool, expected: int) -> None:
    assert block_size(quota, deep) == expected
