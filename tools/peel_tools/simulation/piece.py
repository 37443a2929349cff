# SPDX-License-Identifier: MIT
"""What goes into a payload: honest frames, and what attackers make of them."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, replace

from peel_core import Profile
from peel_core.frame import FLAG_UNSEALED, TAG_BYTES, header
from peel_core.primitives import ascon_seal, codeword, unpack

__all__ = ["HONEST", "Identity", "Piece", "digest_of", "noisy_codeword", "pack_trits", "sealed_frame", "unsealed_frame"]

HONEST = "honest"


def digest_of(frame: bytes) -> bytes:
    """16 bytes that tell a frame from all others."""
    return hashlib.blake2b(frame, digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Piece:
    """One frame, or what pretends to be one."""

    device: int
    """Whose report it is, or claims to be."""
    number: int
    kind: str
    """`HONEST`, or the name of an attack."""
    bad: bool
    """Whether the gateway must object to this piece as such. An attacker's device also sends pieces that are fine on their own."""
    cell: int
    """Where the gateway is to count it (`Profile.cell`)."""
    index: int
    sign: int
    value: int
    """Reading behind the report, Q15, or the true category."""
    frame: bytes
    row: int = -1
    """Position of its readings in the batch."""
    alone: bool = False
    """A payload cannot be split behind this piece, so it travels in one of its own."""
    last: bool = False
    """Nothing can follow it in its payload."""

    @property
    def digest(self) -> bytes:
        """Tells this piece from all others."""
        return digest_of(self.frame)

    def answering(self, index: int, sign: int, frame: bytes) -> Piece:
        """The same report with another outcome; its cell moves with its index, whatever the number assigns."""
        return replace(self, cell=self.cell - self.index + index, index=index, sign=sign, frame=frame)

    def turned(self, kind: str, frame: bytes, *, alone: bool = False, last: bool = False) -> Piece:
        """What an attack made of this piece."""
        return replace(self, kind=kind, bad=True, frame=frame, alone=alone, last=last)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a device knows about itself."""

    device: int
    profile: Profile
    seal_key: bytes
    index_key: bytes

    def __repr__(self) -> str:
        return f"Identity({self.device:08x})"


def sealed_frame(
    profile: Profile, device: int, number: int, key: bytes, trits: bytes, rule: int | None = None
) -> bytes:
    """A frame as whoever holds the key can make it, with any content."""
    front = header(mechanism=profile.mechanism_id, profile=profile.id, device=device, number=number)
    text = struct.pack("<I", profile.rule if rule is None else rule) + trits
    body, tag = ascon_seal(key, front, b"", text)
    return front + body + tag[:TAG_BYTES]


def unsealed_frame(profile: Profile, device: int, number: int, index: int, minus: int) -> bytes:
    """A frame without a seal, which anybody can make."""
    front = header(
        mechanism=profile.mechanism_id, profile=profile.id, device=device, number=number, flags=FLAG_UNSEALED
    )
    return front + struct.pack("<I", profile.rule) + codeword(profile.seed, profile.width, index, minus)


def pack_trits(trits: list[int]) -> bytes:
    """Five trits to a byte (specification, section 8)."""
    digits = [trit + 1 for trit in trits]
    digits += [0] * (-len(digits) % 5)
    return bytes(sum(digits[i + j] * 3**j for j in range(5)) for i in range(0, len(digits), 5))


def noisy_codeword(profile: Profile, index: int, minus: int, places: list[int]) -> bytes:
    """A codeword with the trits at some places moved on by one."""
    trits = unpack(profile.width, codeword(profile.seed, profile.width, index, minus))
    for place in places:
        trits[place] = (trits[place] + 2) % 3 - 1
    return pack_trits(trits)
