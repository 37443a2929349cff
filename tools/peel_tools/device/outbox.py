# SPDX-License-Identifier: MIT
"""A device's outbox, read from its flash with code of its own, so that a mistake in the firmware cannot hide here."""

from __future__ import annotations

import zlib
from pathlib import Path

__all__ = ["read_outbox"]

_NAME_DIGITS = 12
_CHECKSUM_BYTES = 4


def read_outbox(home: Path) -> dict[int, bytes]:
    """The whole frames in the outbox below a device's folder of state, by report number; those that a cut tore are none."""
    found = {}
    for path in home.glob("outbox/*"):
        if len(path.name) == _NAME_DIGITS:
            data = _read(path)
            frame, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
            if frame and zlib.crc32(frame) == int.from_bytes(checksum, "little"):
                found[int(path.name, 16)] = frame
    return found


def _read(path: Path) -> bytes:
    """What is in a file; nothing where a running device has just removed it."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
