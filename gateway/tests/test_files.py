# SPDX-License-Identifier: MIT
"""Files that are written whole or not at all, and what a killed writer leaves behind."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from peel_gateway.files import remove_leftovers, write_atomically

SLOW_WRITER = """
import sys
from pathlib import Path
from peel_gateway.files import write_atomically

def pieces():
    yield "half of a key"
    print("half", flush=True)
    sys.stdin.read()
    yield ", and the other half"

write_atomically(Path(sys.argv[1]), pieces())
"""


@pytest.fixture
def writer(tmp_path: Path) -> subprocess.Popen[bytes]:
    """A process in the middle of writing the file `key`."""
    command = [sys.executable, "-c", SLOW_WRITER, str(tmp_path / "key")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"half\n"
    return process


def test_what_a_killed_writer_left_is_private_and_removed(writer: subprocess.Popen[bytes], tmp_path: Path) -> None:
    writer.kill()
    writer.communicate()
    (left,) = tmp_path.iterdir()
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_lives_is_left_alone(writer: subprocess.Popen[bytes], tmp_path: Path) -> None:
    remove_leftovers(tmp_path)
    writer.communicate()
    assert writer.returncode == 0
    (written,) = tmp_path.iterdir()
    assert written.name == "key"
    assert written.read_bytes() == b"half of a key, and the other half"


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    def pieces() -> Iterator[str]:
        yield "half"
        raise KeyError("the other half")

    with pytest.raises(KeyError):
        write_atomically(tmp_path / "key", pieces())
    assert list(tmp_path.iterdir()) == []


def test_only_temporary_files_are_removed(tmp_path: Path) -> None:
    write_atomically(tmp_path / "key", "whole")
    (tmp_path / ".hidden").touch()
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"key", ".hidden"}
