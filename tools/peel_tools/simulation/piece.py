# SPDX-License-Identifier: MIT
"""Pieces of payloads: honest frames, and those that attackers make."""

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
    """Return a digest of a frame, 16 bytes."""
    return hashlib.blake2b(frame, digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Piece:
    """One frame, real or fake."""

    device: int
    """The device that it names."""
    number: int
    kind: str
    """`HONEST`, or the name of an attack."""
    bad: bool
    """Whether the gateway must refuse this piece. An attacker's device also sends valid pieces."""
    cell: int
    """The cell in which the gateway counts it (`Profile.cell`)."""
    index: int
    sign: int
    value: int
    """The true reading, Q15, or the true category."""
    frame: bytes
    row: int = -1
    """The row of its readings in the batch."""
    alone: bool = False
    """Whether it needs a separate payload, because a payload cannot be split after it."""
    last: bool = False
    """Whether it must be the last of its payload."""
    opened: bool = True
    """Whether cell and sign are those that count; False until its verified coin is opened."""

    @property
    def digest(self) -> bytes:
        """The digest of its frame."""
        return digest_of(self.frame)

    def answering(self, index: int, sign: int, frame: bytes) -> Piece:
        """Return this report with another outcome. Its cell moves with its index, even if the number assigns another one."""
        return replace(self, cell=self.cell - self.index + index, index=index, sign=sign, frame=frame)

    def turned(self, kind: str, frame: bytes, *, alone: bool = False, last: bool = False) -> Piece:
        """Return this piece as an attack has altered it."""
        return replace(self, kind=kind, bad=True, frame=frame, alone=alone, last=last)


@dataclass(frozen=True, slots=True)
class Identity:
    """A device's id, profile and keys."""

    device: int
    profile: Profile
    seal_key: bytes
    index_key: bytes

    def __repr__(self) -> str:
        return f"Identity({self.device:08x})"


def sealed_frame(
    profile: Profile, device: int, number: int, key: bytes, trits: bytes, rule: int | None = None
) -> bytes:
    """Return a sealed frame with any content, by default with the odds of the first question."""
    front = header(profile=profile.id, device=device, number=number)
    text = struct.pack("<I", profile.blocks[0].rule if rule is None else rule) + trits
    body, tag = ascon_seal(key, front, b"", text)
    return front + body + tag[:TAG_BYTES]


def unsealed_frame(profile: Profile, device: int, number: int, index: int, minus: int, rule: int) -> bytes:
    """Return a frame without a seal, which needs no key."""
    front = header(profile=profile.id, device=device, number=number, flags=FLAG_UNSEALED)
    return front + struct.pack("<I", rule) + codeword(profile.seed, profile.width, index, minus)


def pack_trits(trits: list[int]) -> bytes:
    """Pack five trits into each byte (SPEC section 8)."""
    digits = [trit + 1 for trit in trits]
    digits += [0] * (-len(digits) % 5)
    return bytes(sum(digits[i + j] * 3**j for j in range(5)) for i in range(0, len(digits), 5))


def noisy_codeword(profile: Profile, index: int, minus: int, places: list[int]) -> bytes:
    """Return a codeword with the trits at some places increased by one, cyclically."""
    trits = unpack(profile.width, codeword(profile.seed, profile.width, index, minus))
    for place in places:
        trits[place] = (trits[place] + 2) % 3 - 1
    return pack_trits(trits)
