"""Fixtures of the firmware's tests. The modules under test are the very files that are copied to a device."""

from __future__ import annotations

import binascii
import os
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest

FIRMWARE = Path(__file__).parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "peel" / "umqtt-1.3.4"

for folder in (FIRMWARE, FIRMWARE / "tests", FIRMWARE.parent / "bindings" / "micropython", CACHE):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import fetch_umqtt  # noqa: E402

fetch_umqtt.fetch(CACHE)
# umqtt.simple imports these by MicroPython's old names.
sys.modules.setdefault("ustruct", struct)
sys.modules.setdefault("ubinascii", binascii)


@pytest.fixture
def core() -> ModuleType:
    """The encoder: the pure-Python twin of the native module."""
    import peelcore_py

    return peelcore_py
