# SPDX-License-Identifier: MIT
"""A wall clock that can be set wrong for one process: libfaketime, which leaves the steady clocks alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["WrongClock"]


class WrongClock:
    """The clock that a process with these variables sees; where libfaketime is not installed, nothing can be set."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
        self.set(0.0)

    @property
    def settable(self) -> bool:
        """Whether it can be set wrong at all."""
        return self._library is not None

    @property
    def variables(self) -> Mapping[str, str]:
        """What the environment of the process needs."""
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
