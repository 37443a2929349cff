# SPDX-License-Identifier: MIT
"""A clock that can be set wrong, and what it leaves behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from peel_research.soak.clock import find_faketime


def test_what_a_killed_process_left_ends_no_other_of_its_id() -> None:
    """libfaketime refuses to begin where a file of its process id exists."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = [Path("/dev", "shm", f"{name}_{ended.pid}") for name in ("faketime_shm", "sem.faketime_sem")]
    alive = Path("/dev", "shm", "faketime_shm_1")
    if alive.exists():
        pytest.skip("process 1 has a wrong clock itself")
    try:
        for path in (*left, alive):
            path.touch()
        find_faketime()
        assert not any(path.exists() for path in left)
        assert alive.exists()
    finally:
        for path in (*left, alive):
            path.unlink(missing_ok=True)
