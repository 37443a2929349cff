# SPDX-License-Identifier: MIT
"""Where things are in a frame: offsets and sizes of peel.h (SPEC section 9), for whoever must look at the bytes themselves."""

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
"""In the low nibble of byte 0."""
HEADER_BYTES: int = int(lib.PEEL_HEADER_BYTES)
"""The rule follows the header, the trits follow the rule, the tag is last (where there is one)."""
RULE_BYTES: int = int(lib.PEEL_RULE_BYTES)
TRITS_AT: int = HEADER_BYTES + RULE_BYTES
TAG_BYTES: int = int(lib.PEEL_TAG_BYTES)


@dataclass(frozen=True)
class Field:
    """A number in a frame, little-endian."""

    start: int
    end: int

    def of(self, frame: bytes) -> int:
        """What the frame has there."""
        return int.from_bytes(frame[self.start : self.end], "little")

    def put(self, frame: bytes, value: int) -> bytes:
        """The frame with another number there."""
        return frame[: self.start] + value.to_bytes(self.end - self.start, "little") + frame[self.end :]


PROFILE = Field(lib.PEEL_PROFILE_AT, lib.PEEL_DEVICE_AT)
DEVICE = Field(lib.PEEL_DEVICE_AT, lib.PEEL_NUMBER_AT)
NUMBER = Field(lib.PEEL_NUMBER_AT, lib.PEEL_HEADER_BYTES)
RULE = Field(HEADER_BYTES, TRITS_AT)
"""Sealed, unless the frame says otherwise."""


def header(*, mechanism: int, profile: int, device: int, number: int, flags: int = 0) -> bytes:
    """The bytes in front of a frame."""
    out = ffi.new("uint8_t[]", HEADER_BYTES)
    fields = {"mechanism": mechanism, "profile": profile, "device": device, "number": number, "flags": flags}
    check(lib.peel_header_write(out, ffi.new("peel_header *", fields)), "header")
    return bytes(ffi.buffer(out))


def frame_bytes(width: int, flags: int = 0) -> int:
    """Size of a frame of a profile of this width."""
    return check(lib.peel_frame_bytes(width, flags), "frame")


def split(payload: bytes, width: int) -> list[bytes]:
    """The sealed frames, all of one width, that a payload is made of."""
    size = frame_bytes(width)
    return [payload[at : at + size] for at in range(0, len(payload), size)]
