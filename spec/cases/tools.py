# SPDX-License-Identifier: MIT
"""Shared by all makers of cases: inputs made by rule, and the name of a refusal."""

from collections.abc import Callable
from typing import Any

import reference as ref

Case = dict[str, Any]
Vectors = tuple[str, list[Case]]  # comment and cases


def made(tag: str, length: int) -> bytes:
    """Return bytes without structure, different for every tag."""
    return ref.xof(b"peel vectors: " + tag.encode(), length)


def made_int(tag: str, bits: int) -> int:
    return ref.from_le(made(tag, bits // 8))


def outcome(call: Callable[..., object], *arguments: object) -> str:
    """Return "ok", or the fault for which the call is refused."""
    try:
        call(*arguments)
    except ref.RefusedError as refused:
        return refused.fault
    return "ok"


def seeded(entropy: bytes) -> ref.Drbg:
    drbg = ref.Drbg()
    drbg.seed(entropy)
    return drbg


def packed_codeword(seed: int, width: int, symbol: ref.Symbol) -> bytes:
    return ref.pack(ref.codeword(seed, width, symbol))


def signs(questions: int, weight: int = 1) -> ref.Block:
    return ref.Block(ref.SIGN, weight, questions, 1, 0, *ref.odds_of(2**20, 2))


def choice(symbols: int, weight: int = 1) -> ref.Block:
    return ref.Block(ref.CHOICE, weight, 1, symbols, 0, *ref.odds_of(2**20, symbols))


def hashed(symbols: int, domain: int, weight: int = 1) -> ref.Block:
    return ref.Block(ref.HASHED, weight, 1, symbols, domain, *ref.odds_of(2**20, symbols))


def encoder(tag: str, blocks: list[ref.Block], width: int, flags: int = 0) -> ref.Encoder:
    return ref.Encoder(
        flags=flags,
        profile=made_int(f"{tag} profile", 32),
        device=made_int(f"{tag} device", 32),
        width=width,
        seed=made_int(f"{tag} seed", 32),
        blocks=blocks,
        seal_key=made(f"{tag} seal key", 16),
        index_key=made(f"{tag} index key", 16),
    )


def assigned_block(e: ref.Encoder, number: int) -> int:
    """Return the place of the block whose question the number assigns."""
    header = ref.header_bytes(ref.Header(e.flags, e.profile, e.device, number))
    return ref.assigned(e.blocks, ref.index_words(e.index_key, header)[0])[0]


def made_readings(e: ref.Encoder, tag: str) -> list[int]:
    """Return readings over the whole Q15 range and some beyond, and categories."""
    readings: list[int] = []
    for i, block in enumerate(e.blocks):
        raw = made(f"{tag} {i}" if i else tag, 4 * block.questions)
        words = [ref.from_le(raw[at : at + 4]) for at in range(0, len(raw), 4)]
        if block.form == ref.SIGN:
            readings += [w % 80001 - 40000 for w in words]
        else:
            readings += [w % (block.domain or block.symbols) for w in words]
    return readings


def block_fields(blocks: list[ref.Block]) -> list[list[int]]:
    """Return form, weight, questions, symbols, domain, keep and change of each block."""
    return [list(vars(block).values()) for block in blocks]


def encoder_fields(e: ref.Encoder) -> Case:
    return {**vars(e), "blocks": block_fields(e.blocks)}


# Small frames keep the exhaustive files small: 6 trits in 2 bytes, 4 digits of padding.
SMALL = encoder("small", [signs(4)], 7)
WIDE = encoder("wide", [signs(16)], 48)
CHOICE = encoder("choice", [choice(5)], 48)
MANY = encoder("many", [hashed(3, 500)], 48)
MIXED = encoder("mixed", [signs(3, 2), choice(4), signs(2), hashed(3, 500, 16)], 48)
