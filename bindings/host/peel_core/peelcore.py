# SPDX-License-Identifier: MIT
"""The device's `peelcore` module on a host: the device application uses it when it runs under CPython."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peel_core import CORE_VERSION
from peel_core._core import ffi, lib

VERSION = CORE_VERSION


def _checked(code: int) -> int:
    if code < 0:
        raise ValueError(f"error {code}")
    return code


def encoder(
    flags: int,
    profile: int,
    device: int,
    width: int,
    seed: int,
    blocks: Sequence[tuple[int, int, int, int, int, int, int]],
    seal_key: bytes,
    index_key: bytes,
    cached: bool = False,
    /,
) -> bytearray:
    made, questions = ffi.new("peel_encoder *"), ffi.new("peel_block[]", list(blocks) or 1)
    made.flags, made.profile, made.device, made.width, made.seed = flags, profile, device, width, seed
    made.blocks, made.block_count = questions, len(blocks)
    ffi.memmove(made.seal_key, seal_key, 16)
    ffi.memmove(made.index_key, index_key, 16)
    _checked(lib.peel_encoder_check(made))
    made.blocks = ffi.NULL
    return bytearray(ffi.buffer(made)) + bytearray(ffi.buffer(questions))


def drbg() -> bytearray:
    return bytearray(ffi.sizeof("peel_drbg"))


def drbg_seed(drbg: bytearray, entropy: bytes, /) -> None:
    _checked(lib.peel_drbg_seed(ffi.cast("peel_drbg *", ffi.from_buffer(drbg)), entropy, len(entropy)))


def drbg_bytes(drbg: bytearray, n: int, /) -> bytes:
    out = bytearray(n)
    _checked(lib.peel_drbg_bytes(ffi.cast("peel_drbg *", ffi.from_buffer(drbg)), ffi.from_buffer(out), n))
    return bytes(out)


def _encoder(stored: bytearray) -> tuple[Any, Any]:
    """Return the C struct of an encoder, and the blocks that it points to."""
    made = ffi.new("peel_encoder *")
    ffi.memmove(made, stored, ffi.sizeof("peel_encoder"))
    questions = ffi.from_buffer("peel_block[]", memoryview(stored)[ffi.sizeof("peel_encoder") :])
    made.blocks, made.coin_seed = questions, ffi.NULL
    return made, questions


def encode(
    out: bytearray,
    encoder: bytearray,
    drbg: bytearray,
    number: int,
    readings: list[int],
    coin_seed: bytes | None = None,
    /,
) -> int:
    made, _blocks = _encoder(encoder)
    seed = ffi.new("uint8_t[16]", coin_seed or bytes(16))
    if coin_seed is not None:
        made.coin_seed = seed
    state = ffi.cast("peel_drbg *", ffi.from_buffer(drbg))
    return _checked(
        lib.peel_encode(
            ffi.from_buffer(out), len(out), made, number, ffi.new("int32_t[]", readings), len(readings), state
        )
    )


def hash(label: bytes, data: bytes, n: int, /) -> bytes:
    xof = ffi.new("peel_xof *")
    out = ffi.new("uint8_t[]", n)
    lib.peel_hash_init(xof, label)
    lib.peel_xof_absorb(xof, data, len(data))
    lib.peel_xof_squeeze(xof, out, n)
    return bytes(ffi.buffer(out))


def stream(key: bytes, nonce: bytes, n: int, /) -> bytes:
    out = ffi.new("uint8_t[]", n)
    lib.peel_ascon_stream(out, n, key, nonce)
    return bytes(ffi.buffer(out))


def seal(key: bytes, nonce: bytes, ad: bytes, text: bytes, /) -> bytes:
    out, tag = ffi.new("uint8_t[]", max(1, len(text))), ffi.new("uint8_t[16]")
    lib.peel_ascon_seal(out, tag, key, nonce, ad, len(ad), text, len(text))
    return bytes(ffi.buffer(out, len(text))) + bytes(ffi.buffer(tag))


def coin_name(encoder: bytearray, number: int, /) -> bytes:
    made, _blocks = _encoder(encoder)
    name = ffi.new("uint8_t[20]")
    _checked(lib.peel_encoder_coin(name, made, number))
    return bytes(ffi.buffer(name))


def coin_root(name: bytes, seed: bytes, /) -> bytes:
    root = ffi.new("uint8_t[16]")
    _checked(lib.peel_coin_root(root, name, seed))
    return bytes(ffi.buffer(root))


def coin_open(name: bytes, seed: bytes, index: int, /) -> tuple[bytes, bytes]:
    opening, root = ffi.new("uint8_t[]", int(lib.PEEL_MAX_OPENING_BYTES)), ffi.new("uint8_t[16]")
    size = _checked(lib.peel_coin_open(opening, len(opening), root, name, seed, index))
    return bytes(ffi.buffer(opening, size)), bytes(ffi.buffer(root))


def frame_open(seal_key: bytes, width: int, frame: bytes, /) -> tuple[int, bytes]:
    found = ffi.new("uint32_t *")
    trits = ffi.new("uint8_t[]", (width + 3) // 5)
    _checked(lib.peel_frame_open(found, trits, seal_key, width, frame, len(frame)))
    return int(found[0]), bytes(ffi.buffer(trits))
