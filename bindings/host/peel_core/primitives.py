# SPDX-License-Identifier: MIT
"""The core's functions one call at a time, for vectors, self-tests and tools. Use :mod:`peel_core.batch` for bulk work."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from peel_core._core import ffi, lib
from peel_core.errors import check

READING_ONE = int(lib.PEEL_READING_ONE)
MAX_WIDTH = int(lib.PEEL_MAX_WIDTH)
NUMBER_MAX = int(lib.PEEL_NUMBER_MAX)
NO_READING = int(lib.PEEL_NO_READING)
"""In place of a reading: the sensor gave none."""


def _sized(data: bytes, size: int, what: str) -> bytes:
    if len(data) != size:
        raise ValueError(f"{what} must have {size} bytes, got {len(data)}")
    return data


def ascon_seal(key: bytes, nonce: bytes, ad: bytes, text: bytes) -> tuple[bytes, bytes]:
    """Return the ciphertext and 16-byte tag of Ascon-AEAD128."""
    out = ffi.new("uint8_t[]", max(1, len(text)))
    tag = ffi.new("uint8_t[16]")
    key, nonce = _sized(key, 16, "a key"), _sized(nonce, 16, "a nonce")
    lib.peel_ascon_seal(out, tag, key, nonce, ad, len(ad), text, len(text))
    return bytes(ffi.buffer(out, len(text))), bytes(ffi.buffer(tag))


def ascon_open(key: bytes, nonce: bytes, ad: bytes, text: bytes, tag: bytes) -> bytes:
    """Return the plaintext; raise PeelError if the tag (8 to 16 bytes) is wrong."""
    out = ffi.new("uint8_t[]", max(1, len(text)))
    key, nonce = _sized(key, 16, "a key"), _sized(nonce, 16, "a nonce")
    check(lib.peel_ascon_open(out, key, nonce, ad, len(ad), text, len(text), tag, len(tag)))
    return bytes(ffi.buffer(out, len(text)))


def xof(data: bytes, size: int) -> bytes:
    """Return ``size`` bytes of Ascon-XOF128."""
    state, out = ffi.new("peel_xof *"), ffi.new("uint8_t[]", max(1, size))
    lib.peel_xof_init(state)
    check(lib.peel_xof_absorb(state, data, len(data)))
    lib.peel_xof_squeeze(state, out, size)
    return bytes(ffi.buffer(out, size))


def hash_(label: str, data: bytes, size: int) -> bytes:
    """Return HASH of SPEC section 2."""
    encoded = label.encode()
    return xof(bytes([len(encoded)]) + encoded + data, size)


class Drbg:
    """The device's random generator (SPEC section 4). Threads may share it."""

    def __init__(self, entropy: bytes | None = None) -> None:
        self._state: Any = ffi.new("peel_drbg *")
        self._turn = threading.Lock()
        if entropy is not None:
            self.seed(entropy)

    @contextmanager
    def state(self) -> Iterator[Any]:
        """Yield the C struct under a lock. The core runs without the GIL, so two concurrent callers would get the same coins."""
        with self._turn:
            yield self._state

    def seed(self, entropy: bytes) -> None:
        """Seed or reseed; raise PeelError if the health check refuses the input."""
        with self.state() as state:
            check(lib.peel_drbg_seed(state, entropy, len(entropy)), "entropy")

    def bytes(self, size: int) -> bytes:
        """Return the next ``size`` bytes; the generator advances by whole words."""
        out = ffi.new("uint8_t[]", max(1, size))
        with self.state() as state:
            check(lib.peel_drbg_bytes(state, out, size))
        return bytes(ffi.buffer(out, size))


class CoreBlock(NamedTuple):
    """Questions with one form, weight and odds, as the core takes them (SPEC section 6)."""

    form: int
    weight: int
    questions: int
    symbols: int
    """The columns of each question: 1 for a sign."""
    domain: int
    """The number of categories that are hashed; 0 without hashing."""
    keep: int
    change: int


def block_array(blocks: Sequence[CoreBlock]) -> Any:
    """Return blocks as a C array, which has at least one element. Numbers that do not fit in their field raise OverflowError."""
    return ffi.new("peel_block[]", [tuple(block) for block in blocks] or 1)


def perturb(
    blocks: Sequence[CoreBlock], width: int, words: tuple[int, int], readings: Sequence[int], drbg: Drbg
) -> tuple[int, int]:
    """Return the symbol ``(index, minus)`` of one report (SPEC section 6); ``words`` are WORD0 and WORD1 of section 7."""
    symbol = ffi.new("peel_symbol *")
    values, questions = ffi.new("int32_t[]", list(readings) or [0]), block_array(blocks)
    with drbg.state() as state:
        check(lib.peel_perturb(symbol, questions, len(blocks), width, words, values, len(readings), state))
    return int(symbol.index), int(symbol.minus)


def index_words(index_key: bytes, header: bytes) -> tuple[int, int]:
    """Return the words that assign a question to the report with this header (SPEC section 7)."""
    words = ffi.new("uint32_t[2]")
    lib.peel_index_words(words, _sized(index_key, 16, "a key"), _sized(header, 16, "a header"))
    return int(words[0]), int(words[1])


def unit(blocks: Sequence[CoreBlock], width: int, words: tuple[int, int]) -> int:
    """Return the unit that these words assign (SPEC section 7)."""
    questions = block_array(blocks)
    check(lib.peel_blocks_check(questions, len(blocks), width), "blocks")
    return int(lib.peel_unit(questions, len(blocks), words))


def codeword(seed: int, width: int, index: int, minus: int) -> bytes:
    """Return the packed codeword of a symbol (SPEC section 8)."""
    out = ffi.new("uint8_t[]", int(lib.PEEL_MAX_TRIT_BYTES))
    symbol = ffi.new("peel_symbol *", (index, minus))
    size = check(lib.peel_projection_encode(out, seed, width, ffi.NULL, symbol[0]), "codeword")
    return bytes(ffi.buffer(out, size))


def unpack(width: int, trits: bytes) -> list[int]:
    """Return packed trits as -1, 0, +1."""
    out = ffi.new("int8_t[]", int(lib.PEEL_MAX_WIDTH))
    if len(trits) != (width + 3) // 5:
        raise ValueError(f"width {width} needs {(width + 3) // 5} bytes of trits, got {len(trits)}")
    check(lib.peel_projection_unpack(out, width, trits))
    return [int(trit) for trit in out[0 : width - 1]]


def frame_open(seal_key: bytes, width: int, frame: bytes) -> tuple[int, bytes]:
    """Return the rule (the odds as four bytes) and the trits of a sealed frame; raise PeelError with the reason if it does not open."""
    rule_out = ffi.new("uint32_t *")
    trits = ffi.new("uint8_t[]", int(lib.PEEL_MAX_TRIT_BYTES))
    check(lib.peel_frame_open(rule_out, trits, _sized(seal_key, 16, "a key"), width, frame, len(frame)), "frame")
    return int(rule_out[0]), bytes(ffi.buffer(trits, (width + 3) // 5))


def frame_open_unsealed(width: int, frame: bytes) -> tuple[int, bytes]:
    """Return the rule and the packed trits of an unsealed frame, which anyone can have made."""
    rule_out = ffi.new("uint32_t *")
    trits = ffi.new("uint8_t[]", int(lib.PEEL_MAX_TRIT_BYTES))
    check(lib.peel_frame_open_unsealed(rule_out, trits, width, frame, len(frame)), "frame")
    return int(rule_out[0]), bytes(ffi.buffer(trits, (width + 3) // 5))


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """The encoder of one device: profile parameters, identity, keys."""

    profile: int
    device: int
    width: int
    seed: int
    blocks: Sequence[CoreBlock]
    seal_key: bytes
    index_key: bytes
    flags: int = 0

    def __repr__(self) -> str:
        return f"Encoder(device={self.device:08x}, profile={self.profile:08x})"

    def _struct(self, blocks: Any, seed: Any = ffi.NULL) -> Any:
        """Return the C struct, checked. It points to the blocks and the seed, which the caller keeps."""
        encoder = ffi.new("peel_encoder *")
        for field in ("flags", "profile", "device", "width", "seed"):
            setattr(encoder, field, getattr(self, field))
        encoder.blocks, encoder.block_count, encoder.coin_seed = blocks, len(self.blocks), seed
        encoder.seal_key = list(_sized(self.seal_key, 16, "a key"))
        encoder.index_key = list(_sized(self.index_key, 16, "a key"))
        check(lib.peel_encoder_check(encoder), "encoder")
        return encoder

    def coin_name(self, number: int) -> bytes:
        """Return the name of a number's verified coin (SPEC section 13.2); raise PeelError if it has none."""
        name, blocks = ffi.new("uint8_t[]", int(lib.PEEL_COIN_NAME_BYTES)), block_array(self.blocks)
        check(lib.peel_encoder_coin(name, self._struct(blocks), number), "coin")
        return bytes(ffi.buffer(name))

    def encode(self, number: int, readings: Sequence[int], drbg: Drbg, coin_seed: bytes | None = None) -> bytes:
        """Return one sealed frame. With the seed of the number's verified coin the answer is masked, otherwise randomized."""
        out = ffi.new("uint8_t[]", int(lib.PEEL_MAX_FRAME_BYTES))
        values, blocks = ffi.new("int32_t[]", list(readings) or [0]), block_array(self.blocks)
        seed = ffi.NULL if coin_seed is None else ffi.new("uint8_t[]", _sized(coin_seed, 16, "a seed"))
        with drbg.state() as state:
            size = lib.peel_encode(out, len(out), self._struct(blocks, seed), number, values, len(readings), state)
        return bytes(ffi.buffer(out, check(size, "encode")))
