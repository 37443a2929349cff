# SPDX-License-Identifier: MIT
"""A checksum behind what the store keeps as bytes: a bit that flips on a disk is not taken for evidence against a device.

It is no seal: whoever may write to the store may write anything. It finds accidents.
"""

from __future__ import annotations

import zlib

__all__ = ["add_checksum", "drop_checksum"]

_BYTES = 4


def add_checksum(data: bytes) -> bytes:
    """The bytes with their CRC-32 behind them."""
    return data + _checksum(data)


def drop_checksum(checked: bytes) -> bytes:
    """The inverse; `ValueError` where they are not what they were."""
    data = checked[:-_BYTES]
    if checked[len(data) :] != _checksum(data):
        raise ValueError(f"{len(checked)} bytes and their checksum do not agree")
    return data


def _checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(_BYTES, "little")
