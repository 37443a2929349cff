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


def encoder(tag: str, mechanism: int, k: int, width: int, flags: int = 0, domain: int = 0) -> ref.Encoder:
    return ref.Encoder(
        flags=flags,
        mechanism=mechanism,
        profile=made_int(f"{tag} profile", 32),
        device=made_int(f"{tag} device", 32),
        k=k,
        domain=domain,
        width=width,
        seed=made_int(f"{tag} seed", 32),
        rule=ref.rule(2**20, 2 if mechanism == ref.HARMONY else k),
        seal_key=made(f"{tag} seal key", 16),
        index_key=made(f"{tag} index key", 16),
    )


def made_readings(e: ref.Encoder, tag: str) -> list[int]:
    """Return readings over the whole Q15 range and some beyond, or a category."""
    raw = made(tag, 4 * (e.k if e.mechanism == ref.HARMONY else 1))
    words = [ref.from_le(raw[i : i + 4]) for i in range(0, len(raw), 4)]
    return [w % 80001 - 40000 for w in words] if e.mechanism == ref.HARMONY else [words[0] % (e.domain or e.k)]


def encoder_fields(e: ref.Encoder) -> Case:
    return dict(vars(e))


# Small frames keep the exhaustive files small: 6 trits in 2 bytes, 4 digits of padding.
SMALL = encoder("small", ref.HARMONY, 4, 7)
WIDE = encoder("wide", ref.HARMONY, 16, 48)
CHOICE = encoder("choice", ref.KRR, 5, 48)
MANY = encoder("many", ref.HASHING, 3, 48, domain=500)
