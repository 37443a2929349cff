# SPDX-License-Identifier: MIT
"""Two-slot records survive every torn write."""

from __future__ import annotations

import pytest

from peel_device.errors import StorageError
from peel_device.storage import Slots
from power_cut import MemoryFiles, torn_contents


def test_a_new_record_is_absent() -> None:
    assert Slots(MemoryFiles(), "r", 4).read() is None


def test_the_last_write_is_read_back_again_and_again() -> None:
    files = MemoryFiles()
    slots = Slots(files, "r", 1)
    for value in range(10):
        slots.write(bytes([value]))
        assert Slots(files, "r", 1).read() == bytes([value])
        again = Slots(files, "r", 1)
        again.read()
        assert again.read() == bytes([value])


def test_a_torn_write_leaves_the_old_record_or_the_new_one() -> None:
    files = MemoryFiles()
    for value in range(6):
        before = Slots(files, "r", 8)
        old = before.read()
        new = bytes([value + 1] * 8)
        after = MemoryFiles(files.kept)
        writer = Slots(after, "r", 8)
        writer.read()
        writer.write(new)
        changed = [path for path in after.kept if after.kept[path] != files.kept.get(path)]
        assert len(changed) == 1
        for torn in torn_contents(files.kept.get(changed[0]), after.kept[changed[0]]):
            cut = MemoryFiles(files.kept)
            if torn is not None:
                cut.kept[changed[0]] = torn
            assert Slots(cut, "r", 8).read() in (old, new)
        files = after


def test_two_damaged_copies_stop_the_device() -> None:
    files = MemoryFiles({"r.0": b"x", "r.1": b"y"})
    with pytest.raises(StorageError, match="both copies of r are damaged"):
        Slots(files, "r", 4).read()


def test_a_copy_that_is_missing_counts_as_damaged_once_both_were_written() -> None:
    files = MemoryFiles()
    writer = Slots(files, "r", 1)
    for value in range(5):
        writer.write(bytes([value]))
        whole = Slots(files, "r", 1)
        assert whole.read() == bytes([value])
        assert not whole.damaged
        for copy in sorted(files.kept) if value else ():
            rest = Slots(MemoryFiles({name: data for name, data in files.kept.items() if name != copy}), "r", 1)
            assert rest.read() in (bytes([value]), bytes([value - 1]))
            # After a single write the record has one copy, whose loss cannot be noticed. Callers that must notice write twice.
            assert rest.damaged == (value > 1 or copy == "r.1")


def test_a_first_write_that_was_torn_counts_as_never_made() -> None:
    assert Slots(MemoryFiles({"r.1": b"PL1"}), "r", 4).read() is None


def test_a_record_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="r: a record must have 4 bytes, got 3"):
        Slots(MemoryFiles(), "r", 4).write(b"abc")
