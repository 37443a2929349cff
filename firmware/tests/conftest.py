"""Fixtures of the firmware's tests. The modules under test are the very files that are copied to a device."""

from __future__ import annotations

import binascii
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest

from peel_tools.boards.umqtt import umqtt_folder

FIRMWARE = Path(__file__).parent.parent

for folder in (FIRMWARE, FIRMWARE / "tests", FIRMWARE.parent / "bindings" / "micropython", umqtt_folder()):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

# umqtt.simple imports these by MicroPython's old names.
sys.modules.setdefault("ustruct", struct)
sys.modules.setdefault("ubinascii", binascii)


@pytest.fixture
def core() -> ModuleType:
    """The encoder: the pure-Python twin of the native module."""
    import peelcore_py

    return peelcore_py
