# SPDX-License-Identifier: MIT
"""The outbox: bounded, in order, and intact after a power cut at any byte."""

from __future__ import annotations

import pytest

from peel_device.outbox import Outbox
from power_cut import FullFiles, MemoryFiles, WitnessFiles


def open_outbox(files: MemoryFiles, limit: int = 5) -> Outbox:
    outbox = Outbox(files, "out", limit)
    outbox.start()
    return outbox


def filled(files: MemoryFiles, count: int) -> Outbox:
    outbox = open_outbox(files)
    for number in range(1, count + 1):
        outbox.put(number, frame(number))
    return outbox


def frame(number: int) -> bytes:
    return bytes([number & 0xFF, number >> 8]) * 20


def contents(outbox: Outbox) -> dict[int, bytes]:
    return dict(outbox.unsent(1000))


def test_frames_come_back_in_order_after_a_reboot() -> None:
    files = MemoryFiles()
    outbox = open_outbox(files)
    for number in (1, 2, 300):
        outbox.put(number, frame(number))
    assert open_outbox(files).unsent(2) == [(1, frame(1)), (2, frame(2))]
    assert list(contents(open_outbox(files))) == [1, 2, 300]


def test_when_full_the_oldest_goes_and_is_counted() -> None:
    files = MemoryFiles()
    outbox = open_outbox(files)
    for number in range(1, 9):
        outbox.put(number, frame(number))
    assert list(contents(outbox)) == [4, 5, 6, 7, 8]
    assert outbox.dropped == 3
    assert open_outbox(files).dropped == 3


def test_what_a_receipt_settles_is_gone_for_good() -> None:
    files = MemoryFiles()
    outbox = filled(files, 5)
    outbox.settle([(0, 1), (4, 2**48 - 1)])
    assert list(contents(open_outbox(files))) == [2, 3]


def test_what_the_broker_takes_waits_for_its_receipt() -> None:
    outbox = filled(MemoryFiles(), 4)
    outbox.sent([1, 2])
    assert (outbox.waiting, outbox.unconfirmed, outbox.oldest_unconfirmed) == (2, 2, 1)
    assert [number for number, _ in outbox.unsent(9)] == [3, 4]
    outbox.settle([(0, 1)])
    assert (outbox.waiting, outbox.unconfirmed, outbox.oldest_unconfirmed) == (2, 1, 2)
    outbox.send_again()
    assert (outbox.waiting, outbox.unconfirmed, outbox.oldest_unconfirmed) == (3, 0, None)
    assert [number for number, _ in outbox.unsent(9)] == [2, 3, 4]


def test_the_broker_is_enough_where_the_bundle_says_so() -> None:
    files = MemoryFiles()
    outbox = Outbox(files, "out", 5, confirmed_by_broker=True)
    outbox.start()
    for number in (1, 2, 3):
        outbox.put(number, frame(number))
    outbox.sent([1, 2])
    assert list(contents(open_outbox(files))) == [3]


def test_when_full_a_frame_that_the_broker_has_goes_before_one_that_it_has_not() -> None:
    outbox = filled(MemoryFiles(), 5)
    outbox.sent([1, 2])
    for number in (6, 7):
        outbox.put(number, frame(number))
    assert (outbox.dropped, outbox.unconfirmed) == (2, 0)
    assert list(contents(outbox)) == [3, 4, 5, 6, 7]


def test_a_receipt_costs_no_write_and_a_note_before_deep_sleep_one_in_eight_frames() -> None:
    files = WrittenFiles()
    outbox = open_outbox(files, limit=100)
    before = files.writes
    for number in range(1, 33):
        outbox.put(number, frame(number))
        outbox.sent([number])
        outbox.note_sent()
    assert files.writes - before == 32 + 4
    restarted = open_outbox(MemoryFiles(files.kept), limit=100)
    assert (restarted.unconfirmed, restarted.waiting) == (32, 0)
    before = files.writes
    outbox.settle([(0, 32)])
    assert (len(outbox), files.writes) == (0, before)


def test_a_frame_that_cannot_be_removed_is_settled_by_the_next_receipt() -> None:
    files = StuckFiles()
    outbox = open_outbox(files)
    outbox.put(1, frame(1))
    files.stuck = True
    outbox.settle([(0, 1)])
    assert len(outbox) == 1
    files.stuck = False
    outbox.settle([(0, 1)])
    assert len(outbox) == 0


class WrittenFiles(MemoryFiles):
    """Files that count writes."""

    writes = 0

    def write(self, path: str, data: bytes) -> None:
        self.writes += 1
        super().write(path, data)


class StuckFiles(MemoryFiles):
    """A flash that refuses to remove files."""

    stuck = False

    def remove(self, path: str) -> None:
        if self.stuck:
            raise OSError(5, "cannot be removed")
        super().remove(path)


@pytest.mark.slow
def test_a_power_cut_at_every_byte() -> None:
    """Every frame that was stored and not removed or dropped is there, whole and in order. Drops are counted exactly once."""
    files = WitnessFiles()
    settled: dict[int, bytes] = {}  # stored, with no removal begun
    unsettled: set[int] = set()  # being put, removed or dropped right now
    made = 0
    removed = 0

    def next_boot_is_sound(state: MemoryFiles) -> None:
        outbox = open_outbox(state)
        found = contents(outbox)
        assert list(found) == sorted(found)
        assert set(settled) - unsettled <= set(found) <= set(settled) | unsettled
        assert all(content == frame(number) for number, content in found.items())
        # Every stored frame is in the outbox, was acknowledged or was dropped. Frames being changed may be in either state.
        slack = made - removed - len(found) - outbox.dropped
        assert -len(unsettled) <= slack <= len(unsettled)
        before = outbox.dropped
        assert open_outbox(state).dropped == before

    files.witness = next_boot_is_sound
    outbox = open_outbox(files)
    for number in range(1, 120):
        unsettled = {number} | ({min(settled)} if len(settled) == 5 else set())
        outbox.put(number, frame(number))
        made += 1
        settled = contents(outbox)
        unsettled = set()
        if number % 3 == 0:
            gone = sorted(settled)[:2]
            unsettled = set(gone)
            outbox.settle([(number, number) for number in gone])
            removed += 2
            settled, unsettled = contents(outbox), set()
    assert made == removed + outbox.dropped + len(outbox)
    assert files.cuts > 25_000


def test_a_full_flash_makes_room_by_dropping_the_oldest() -> None:
    files = FullFiles(230)
    outbox = open_outbox(files, limit=100)
    for number in range(1, 7):
        outbox.put(number, frame(number))
    assert outbox.dropped > 0
    assert list(contents(outbox))[-1] == 6


def test_a_flash_with_no_room_at_all_says_so() -> None:
    outbox = open_outbox(FullFiles(60))
    with pytest.raises(OSError):
        outbox.put(1, frame(1))
    assert len(outbox) == 0


def test_foreign_files_are_left_alone() -> None:
    files = MemoryFiles({"out/notes.txt": b"mine", "out/xyzxyzxyzxyz": b"mine too"})
    assert len(open_outbox(files)) == 0
    assert {"out/notes.txt", "out/xyzxyzxyzxyz"} <= set(files.kept)


@pytest.mark.parametrize("reboot", [False, True])
def test_a_frame_that_goes_bad_on_flash_is_dropped_and_counted_once(reboot: bool) -> None:
    files = WitnessFiles()
    outbox = open_outbox(files)
    for number in (1, 2, 3):
        outbox.put(number, frame(number))
    files.kept["out/000000000002"] = b"rotten"

    def next_boot_counts_one(state: MemoryFiles) -> None:
        cut = open_outbox(state)
        assert contents(cut) == {1: frame(1), 3: frame(3)}
        assert cut.dropped == 1

    files.witness = next_boot_counts_one
    if reboot:
        outbox = open_outbox(files)
    assert outbox.unsent(8) == [(1, frame(1)), (3, frame(3))]
    assert (len(outbox), outbox.dropped) == (2, 1)
    assert files.cuts > 50


class MoodyFiles(MemoryFiles):
    """Files that cannot be read while `moody` names them."""

    moody: tuple[str, ...] = ()

    def read(self, path: str) -> bytes | None:
        if path in self.moody:
            raise OSError(5, "cannot be read")
        return super().read(path)


@pytest.mark.parametrize("reboot", [False, True])
def test_a_frame_that_cannot_be_read_waits_for_a_better_round(reboot: bool) -> None:
    files = MoodyFiles()
    outbox = open_outbox(files)
    for number in (1, 2, 3):
        outbox.put(number, frame(number))
    files.moody = ("out/000000000001", "out/000000000002")
    if reboot:
        outbox = open_outbox(files)
    assert outbox.unsent(2) == [(3, frame(3))], "the others do not wait for it"
    assert (len(outbox), outbox.dropped) == (3, 0)
    files.moody = ()
    assert list(contents(outbox)) == [1, 2, 3]


def test_a_lost_count_of_drops_stops_nobody() -> None:
    files = MemoryFiles()
    open_outbox(files).put(1, frame(1))
    files.kept.update({"out/state.0": b"?", "out/state.1": b"?"})
    outbox = open_outbox(files)
    assert (list(contents(outbox)), outbox.dropped) == ([1], 0)
    assert open_outbox(files).dropped == 0


def test_on_a_full_flash_a_drop_is_counted_even_if_counting_takes_room() -> None:
    files = FullFiles(230)
    outbox = open_outbox(files)
    outbox.put(1, frame(1))
    del files.kept["out/state.0"], files.kept["out/state.1"]
    files.kept["other"] = b"x" * (230 - len(files.kept["out/000000000001"]))
    assert outbox.make_room()
    assert not outbox.make_room()
    assert open_outbox(files).dropped == 1
