# SPDX-License-Identifier: MIT
"""Files on a real file system: an unreadable file is not an absent one."""

from __future__ import annotations

from pathlib import Path

import pytest

from peel_device.errors import StorageError
from peel_device.storage import FlashFiles, Slots


def test_write_read_remove(tmp_path: Path) -> None:
    files = FlashFiles()
    folder = f"{tmp_path}/a/b"
    files.make_folder(folder)
    files.make_folder(folder)
    files.write(folder + "/x", b"one")
    files.write(folder + "/x", b"2")
    assert files.read(folder + "/x") == b"2"
    assert files.names(folder) == ["x"]
    files.remove(folder + "/x")
    files.remove(folder + "/x")
    assert files.read(folder + "/x") is None


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError):
        FlashFiles().make_folder(f"{tmp_path}/file/below")


def test_unreadable_is_not_absent(tmp_path: Path) -> None:
    """A record whose two files cannot be read is damaged, not new."""
    files = FlashFiles()
    for slot in "01":
        (tmp_path / f"ledger.{slot}").mkdir()
    with pytest.raises(OSError):
        files.read(f"{tmp_path}/ledger.0")
    with pytest.raises(StorageError):
        Slots(files, f"{tmp_path}/ledger", 4).read()
