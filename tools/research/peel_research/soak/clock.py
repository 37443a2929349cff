# SPDX-License-Identifier: MIT
"""A wall clock that can be set wrong for one process: libfaketime, which leaves the steady clocks alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["WrongClock", "find_faketime"]

_SHARED = Path("/dev", "shm")


def find_faketime() -> Path | None:
    """libfaketime, to be preloaded; None where it is not installed.

    It keeps files named by process id. What a process that was killed has left would end the next one that is given its id, so that goes.
    """
    for path in _SHARED.glob("*faketime_s[eh]m_*"):
        if not Path("/proc", path.name.rpartition("_")[2]).exists():
            with suppress(OSError):  # another user's, or somebody else was faster
                path.unlink()
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


class WrongClock:
    """The clock that a process with these variables sees; where libfaketime is not installed, nothing can be set."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._library = find_faketime()
        self.set(0.0)

    @property
    def settable(self) -> bool:
        """Whether it can be set wrong at all."""
        return self._library is not None

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment variables for the process."""
        if self._library is None:
            return {}
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, seconds: float) -> None:
        """Have it go so many seconds ahead of the right time; behind, if negative."""
        self._file.write_text(f"{seconds:+.0f}")
