# SPDX-License-Identifier: MIT
"""Offsets and sizes of the fields in a frame (peel.h, SPEC section 9)."""

from __future__ import annotations

from dataclasses import dataclass

from peel_core._core import ffi, lib
from peel_core.errors import check

__all__ = [
    "DEVICE",
    "FLAG_UNSEALED",
    "HEADER_BYTES",
    "NUMBER",
    "PROFILE",
    "RULE",
    "RULE_BYTES",
    "TAG_BYTES",
    "TRITS_AT",
    "Field",
    "frame_bytes",
    "header",
    "split",
]

FLAG_UNSEALED: int = int(lib.PEEL_FLAG_UNSEALED)
"""Set in the low nibble of byte 0."""
HEADER_BYTES: int = int(lib.PEEL_HEADER_BYTES)
"""The rule follows the header, then the trits. The tag, if there is one, is last."""
RULE_BYTES: int = int(lib.PEEL_RULE_BYTES)
TRITS_AT: int = HEADER_BYTES + RULE_BYTES
TAG_BYTES: int = int(lib.PEEL_TAG_BYTES)


@dataclass(frozen=True)
class Field:
    """A little-endian number in a frame."""

    start: int
    end: int

    def of(self, frame: bytes) -> int:
        """Return the field's value in a frame."""
        return int.from_bytes(frame[self.start : self.end], "little")

    def put(self, frame: bytes, value: int) -> bytes:
        """Return the frame with another value in this field."""
        return frame[: self.start] + value.to_bytes(self.end - self.start, "little") + frame[self.end :]


PROFILE = Field(lib.PEEL_PROFILE_AT, lib.PEEL_DEVICE_AT)
DEVICE = Field(lib.PEEL_DEVICE_AT, lib.PEEL_NUMBER_AT)
NUMBER = Field(lib.PEEL_NUMBER_AT, lib.PEEL_HEADER_BYTES)
RULE = Field(HEADER_BYTES, TRITS_AT)
"""Encrypted, unless the frame is unsealed."""


def header(*, profile: int, device: int, number: int, flags: int = 0) -> bytes:
    """Return the header of a frame."""
    out = ffi.new("uint8_t[]", HEADER_BYTES)
    fields = {"profile": profile, "device": device, "number": number, "flags": flags}
    check(lib.peel_header_write(out, ffi.new("peel_header *", fields)), "header")
    return bytes(ffi.buffer(out))


def frame_bytes(width: int, flags: int = 0) -> int:
    """Return the size of a frame of this width."""
    return check(lib.peel_frame_bytes(width, flags), "frame")


def split(payload: bytes, width: int) -> list[bytes]:
    """Split a payload into its sealed frames, all of one width."""
    size = frame_bytes(width)
    return [payload[at : at + size] for at in range(0, len(payload), size)]
