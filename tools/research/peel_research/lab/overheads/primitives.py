# SPDX-License-Identifier: MIT
"""The costs of the primitives of defences: the paper's estimate, on this machine, and on an emulated Pico.

Primitives are real if a library has them (``cryptography``, that is OpenSSL). The others are composed of real ones:

- a Pedersen commitment is two scalar multiplications on P-256 (its point addition is left out),
- a proof of knowledge is Schnorr's: one scalar multiplication and a hash,
- an oblivious transfer is that of Even, Goldreich and Lempel with RSA-2048: one encryption and two decryptions, as the paper
  counts them for OT-HCMS; where it counts encryptions alone, the client makes the request and no more.

Curves instead of 2048-bit groups favour the other defences.
"""

from __future__ import annotations

import enum
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from peel_core import derive_keys, encode_many, make_profile
from peel_core.coins import BATCH_NUMBERS, coin_names, coin_roots, coin_seeds, open_coins

__all__ = ["PAPER_MS", "MissingError", "Primitive", "cycles_of", "library_ms", "pico_cycles", "plain_ms", "profile"]

_MESSAGE = bytes(71)
"""As long as the sealed part and header of a report with k = 252: what others would encrypt or hash."""
_PARAMETERS = 466_944 // 32
"""Of the model whose filtering Badr et al. pay for."""
_K, _SMALL_K = 252, 16


class MissingError(Exception):
    """Something is not installed here that a measurement needs; the message says how to get it."""


class Primitive(enum.Enum):
    """The steps that schemes are counted in."""

    HASH = "SHA-256"
    AES = "AES-128"
    ECC = "P-256 multiplication"
    RSA = "RSA-2048 with the private key"
    RSA_PUBLIC = "RSA-2048 with the public key"
    COMMITMENT = "Pedersen commitment"
    PROOF = "proof of knowledge"
    TRANSFER = "oblivious transfer"
    TRANSFER_REQUEST = "encryption of an oblivious transfer"
    FILTER = "filtering 14,592 parameters"
    PROJECTION = "the paper's projection, k = 252"
    REPORT = "whole report of ours, k = 252"
    SMALL_REPORT = "whole report of ours, k = 16"
    COIN = "verified coin of ours, odds 8:3, with its share of audited tables"


PAPER_MS: Mapping[Primitive, float] = {
    Primitive.HASH: 0.001,
    Primitive.AES: 0.001,
    Primitive.ECC: 1.0,
    Primitive.RSA: 50.0,
    Primitive.RSA_PUBLIC: 1.0,  # not stated: what is left of its 121 ms for checking a signature
    Primitive.COMMITMENT: 1.0,
    Primitive.PROOF: 20.0,
    Primitive.TRANSFER: 30.0,  # "20-50"; this is what its figure for OT-HCMS takes,
    Primitive.TRANSFER_REQUEST: 20.0,  # and this what that for emPrivKV takes
    Primitive.FILTER: 1.0,
    Primitive.PROJECTION: 0.009,
}
"""The unit costs that the paper assumes."""


def plain_ms(quick: bool) -> dict[Primitive, float]:
    """Milliseconds on this machine of what needs no further library, the least of several runs each: what one core needs."""
    return {primitive: _best(run, _repeats(quick)) for primitive, run in _plain().items()}


def library_ms(quick: bool, hash_ms: float) -> dict[Primitive, float]:
    """Milliseconds of what ``cryptography`` has, and of what is composed of it; `MissingError` without it."""
    costs = {primitive: _best(run, _repeats(quick)) for primitive, run in _from_library().items()}
    costs[Primitive.COMMITMENT] = 2 * costs[Primitive.ECC]
    costs[Primitive.PROOF] = costs[Primitive.ECC] + hash_ms
    costs[Primitive.TRANSFER] = costs[Primitive.RSA_PUBLIC] + 2 * costs[Primitive.RSA]
    costs[Primitive.TRANSFER_REQUEST] = costs[Primitive.RSA_PUBLIC]
    return costs


def _repeats(quick: bool) -> int:
    return 3 if quick else 9


def pico_cycles() -> dict[Primitive, float]:
    """Cycles on an emulated RP2040 of what MicroPython's build has: those of ``peel bench device``, which takes minutes.

    `MissingError` where that cannot run: away from a checkout, or without the tools that firmware is built with.
    """
    command = [sys.executable, "-m", "peel_tools", "bench", "device", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(f"no cycles: {(done.stderr.strip() or 'peel bench device failed').splitlines()[-1]}")
    return cycles_of(json.loads(done.stdout.splitlines()[-1]))


def cycles_of(figures: Mapping[str, Any]) -> dict[Primitive, float]:
    """Return cycles from the output of ``peel bench device``."""
    rivals = figures["rivals"]
    return {
        Primitive.REPORT: figures["k252"]["cycles"],
        Primitive.SMALL_REPORT: figures["k16"]["cycles"],
        Primitive.COIN: figures["verified"]["cycles"],
        Primitive.AES: rivals["aes128_cbc"]["cycles"],
        Primitive.HASH: rivals["sha256"]["cycles"],
        Primitive.ECC: rivals["ecc_p256"]["cycles"],
        Primitive.COMMITMENT: 2 * rivals["ecc_p256"]["cycles"],
        Primitive.PROOF: rivals["ecc_p256"]["cycles"] + rivals["sha256"]["cycles"],
    }


def _best(run: Callable[[], int], repeats: int) -> float:
    """Least CPU milliseconds of one step; `run` does several and says how many."""
    times = []
    for _ in range(repeats):
        start = time.process_time_ns()
        steps = run()
        times.append((time.process_time_ns() - start) / steps)
    return min(times) / 1e6


def profile(k: int, *, verify: bool = False) -> Any:
    """Return a Harmony profile with k attributes."""
    attributes = [{"name": f"a{i}", "kind": "mean", "low": 0, "high": 1} for i in range(k)]
    table: dict[str, Any] = {"name": "overheads", "epsilon": 1, "verify": verify, "seed": 1, "quota": 1, "period": 1}
    table |= {"offline": 60, "bucket": 60} if verify else {}
    return make_profile({**table, "width": max(48, k), "attribute": attributes})


def _plain() -> dict[Primitive, Callable[[], int]]:
    """Steps that need no library of cryptography."""
    rng = np.random.default_rng(1)
    parameters = rng.standard_normal(_PARAMETERS, np.float32)
    phi = rng.standard_normal((_K - 1, _K))

    def hashed() -> int:
        for _ in range(1000):
            sha256(_MESSAGE).digest()
        return 1000

    def filtered() -> int:
        for _ in range(20):
            np.flatnonzero(np.abs(parameters) > 1.0)
        return 20

    def projected() -> int:
        """Of a vector that is one value but for one entry: a column and the rows' sums."""
        rest = phi.sum(axis=1)
        for index in range(_K):
            np.rint(1.004 * phi[:, index] - 0.004 * rest)
        return _K

    return {
        Primitive.HASH: hashed,
        Primitive.FILTER: filtered,
        Primitive.PROJECTION: projected,
        Primitive.REPORT: _reporting(_K),
        Primitive.SMALL_REPORT: _reporting(_SMALL_K),
        Primitive.COIN: _coins,
    }


def _reporting(k: int) -> Callable[[], int]:
    made, count = profile(k), 2000
    ids = np.ones(count, np.uint32)
    keys = derive_keys(bytes(32), "overheads", ids, 1, bytes(16))
    readings, numbers = np.zeros((count, k), np.int32), np.arange(1, count + 1)

    def reported() -> int:
        encode_many(made, ids, keys, numbers, readings, entropy=os.urandom(64))
        return count

    return reported


def _coins() -> int:
    """Make the tables of some batches, and open one outcome of each table that the audits leave."""
    made = profile(_SMALL_K, verify=True)
    (block,) = made.blocks
    count = 20 * BATCH_NUMBERS
    numbers = np.arange(1, count + 1)
    names = coin_names(made.id, np.ones(count, np.uint32), numbers, block.keep, block.change, block.outcomes)
    seeds = coin_seeds(np.zeros((count, 16), np.uint8), numbers)
    reports = count * (BATCH_NUMBERS - made.audits) // BATCH_NUMBERS
    coin_roots(names, seeds)
    open_coins(names[:reports], seeds[:reports], numbers[:reports] % block.odds.total, made.opening_bytes)
    return int(reports)


def _from_library() -> dict[Primitive, Callable[[], int]]:
    try:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError as error:
        raise MissingError(f"times of other schemes need `pip install 'peel-telemetry[research]'` ({error})") from None
    mine, theirs = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    filled = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    sealed = key.public_key().encrypt(bytes(32), filled)
    cipher = Cipher(algorithms.AES128(bytes(16)), modes.CBC(bytes(16)))
    padded = bytes(-(-len(_MESSAGE) // 16) * 16)

    def enciphered() -> int:
        for _ in range(200):
            encryptor = cipher.encryptor()
            encryptor.update(padded)
            encryptor.finalize()
        return 200

    def multiplied() -> int:
        for _ in range(20):
            mine.exchange(ec.ECDH(), theirs.public_key())
        return 20

    def deciphered() -> int:
        for _ in range(5):
            key.decrypt(sealed, filled)
        return 5

    def public() -> int:
        for _ in range(20):
            key.public_key().encrypt(bytes(32), filled)
        return 20

    return {
        Primitive.AES: enciphered,
        Primitive.ECC: multiplied,
        Primitive.RSA: deciphered,
        Primitive.RSA_PUBLIC: public,
    }
