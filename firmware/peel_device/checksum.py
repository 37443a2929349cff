# SPDX-License-Identifier: MIT
"""CRC-32 (IEEE 802.3), to tell a complete write from a torn one."""

import binascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

_NIBBLES = (
    0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
    0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C, 0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
)  # fmt: skip


def portable_crc32(data: bytes) -> int:
    """Return the CRC-32, four bits at a time, for builds of MicroPython whose binascii lacks it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        crc = (crc >> 4) ^ _NIBBLES[crc & 15]
        crc = (crc >> 4) ^ _NIBBLES[crc & 15]
    return crc ^ 0xFFFFFFFF


crc32: "Callable[[bytes], int]" = getattr(binascii, "crc32", portable_crc32)


def sealed(data: bytes) -> bytes:
    """Return data with its checksum appended."""
    return data + crc32(data).to_bytes(4, "little")


def unsealed(data: bytes) -> bytes | None:
    """Return the data without its checksum, or None if the checksum is wrong."""
    if len(data) < 4 or crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
        return None
    return data[:-4]
