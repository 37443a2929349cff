# SPDX-License-Identifier: MIT
"""The schemes of the paper's two tables of overheads: what a client sends and computes per round, by their own message formats.

The formulas are those that the PEEL paper states beside each scheme, with its sizes (ECC 224 bits and up, RSA and OT messages 2048, hashes
256); what it prints is kept beside them, so that disagreements show. They are not recounted from the schemes' own papers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, log2

from peel_core.coins import BATCH_NUMBERS, ROOT_BYTES
from peel_research.lab.overheads.primitives import Primitive, profile

__all__ = ["SCHEMES", "SIZES", "Scheme", "Sizes"]

_MESSAGE = 2048
"""Bits of an RSA, OT or commitment message there."""
_MESSAGE_BYTES = 24
"""Header and tag of a message of ours."""


@dataclass(frozen=True)
class Sizes:
    """The parameters of the formulas: small ones for the other defences, the paper's for PEEL."""

    d: int = 16
    """Categories."""
    l: int = 16  # noqa: E741 (the paper's letter)
    """Commitments of VGRR."""
    n: int = 16
    """Commitments of Secure OLH."""
    k: int = 252
    """Attributes of PEEL."""
    tau: int = 2
    """OT-HCMS transfers 2^tau messages; 2 at epsilon 1."""
    parameters: int = 14_592
    """Of the model of Badr et al."""

    @property
    def levels(self) -> int:
        """Bits of a category."""
        return ceil(log2(self.d))

    @property
    def slots(self) -> int:
        """Of Secure OLH: g."""
        return ceil(self.d / 2)


SIZES = Sizes()
Operations = Mapping[Primitive, int]


@dataclass(frozen=True)
class Scheme:
    """One line of both tables."""

    name: str
    source: str
    content: str
    bits: Callable[[Sizes], int]
    bits_formula: str
    bits_printed: str
    bits_printed_as: Callable[[Sizes], int]
    """The printed figure or formula, evaluated."""
    operations: Callable[[Sizes], Operations]
    ms_printed: str
    ms_printed_as: Callable[[Sizes], float]
    note: str = ""
    guarantee: str = "none about coins"
    """The protection against a device that biases its answer; of other schemes, by their papers."""


def _peel_bits(sizes: Sizes) -> int:
    return (sizes.k - 1) * ceil(log2(sizes.k - 1))


def _own(name: str, k: Callable[[Sizes], int], report: Primitive) -> Scheme:
    """Ours, for k attributes: the frame of a real profile, beside its formula."""
    return Scheme(
        name=name,
        source="spec/SPEC.md: the whole frame",
        content="header 128, rule 32, w - 1 trits at five per byte, tag 64; width w = max(48, k)",
        bits=lambda sizes: 8 * int(profile(k(sizes)).frame_bytes),
        bits_formula="128 + 32 + 8 ceil((w - 1) / 5) + 64",
        bits_printed="",
        bits_printed_as=lambda sizes: 128 + 32 + 8 * ceil((max(48, k(sizes)) - 1) / 5) + 64,
        operations=lambda sizes: {report: 1},
        ms_printed="",
        ms_printed_as=lambda sizes: 0.0,
        note="with coin, assigned attribute, codeword and seal",
        guarantee="the coin is judged: statistics expose a biased one in the end",
    )


def _verified(name: str, k: Callable[[Sizes], int], report: Primitive) -> Scheme:
    """Return the scheme of ours with verified coins: all that a device sends for a report, on average."""

    def bits(sizes: Sizes) -> int:
        made = profile(k(sizes), verify=True)
        reports = BATCH_NUMBERS - made.audits
        batch = 2 * _MESSAGE_BYTES + ROOT_BYTES * BATCH_NUMBERS + 16 * made.audits
        return int(8 * (made.frame_bytes + _MESSAGE_BYTES + made.opening_bytes + batch / reports) + 0.5)

    return Scheme(
        name=name,
        source="spec/SPEC.md section 13: report, opening, and a part of the commitment and the audit answer",
        content="report as above; 24 + 94 bytes for the opening; 536 + 152 bytes for a batch of 24 reports",
        bits=bits,
        bits_formula="8 (frame + 118 + 688 / 24)",
        bits_printed="",
        bits_printed_as=bits,
        operations=lambda sizes: {report: 1, Primitive.COIN: 1},
        ms_printed="",
        ms_printed_as=lambda sizes: 0.0,
        note="with receipts that the gateway sends; rows above have none",
        guarantee="a fair coin on an answer fixed before, or a malformed table that escaped an audit of one in four",
    )


_P = Primitive
SCHEMES: tuple[Scheme, ...] = (
    Scheme(
        name="Badr et al.",
        source="Badr et al.: filtering of shared model parameters",
        content="float32 parameters after filtering",
        bits=lambda s: 32 * s.parameters,
        bits_formula="32 n",
        bits_printed=">= 466,944",
        bits_printed_as=lambda s: 466_944,
        operations=lambda s: {_P.FILTER: 1},
        ms_printed="1",
        ms_printed_as=lambda s: 1.0,
        note="the printed figure is n = 14,592 parameters",
    ),
    Scheme(
        name="Shamshad et al.",
        source="Shamshad et al.: authenticated encryption by elliptic curves",
        content="ECC public key 608, ECC ciphertext 1280, AES block 128",
        bits=lambda s: 608 + 1280 + 128,
        bits_formula="608 + 1280 + 128",
        bits_printed="2,016",
        bits_printed_as=lambda s: 2016,
        operations=lambda s: {_P.ECC: 2, _P.HASH: 2, _P.AES: 1},
        ms_printed="2",
        ms_printed_as=lambda s: 2.0,
        note="as many bits as the paper prints for PEEL itself",
    ),
    Scheme(
        name="Parameswarath et al.",
        source="Parameswarath et al.: anonymous tokens by RSA",
        content="RSA token 1760, signature 2272",
        bits=lambda s: 1760 + 2272,
        bits_formula="1760 + 2272",
        bits_printed=">= 4,032",
        bits_printed_as=lambda s: 4032,
        operations=lambda s: {_P.RSA: 2, _P.HASH: 3, _P.PROOF: 1, _P.RSA_PUBLIC: 1},
        ms_printed="121",
        ms_printed_as=lambda s: 121.0,
    ),
    Scheme(
        name="emPrivKV",
        source="Horigome, Kikuchi, Yu 2023: oblivious transfer of key-value pairs",
        content="5 rounds of 1-out-of-d oblivious transfer",
        bits=lambda s: 5 * s.levels * _MESSAGE,
        bits_formula="5 ceil(log2 d) 2048",
        bits_printed="5 ceil(log2 d) 2048",
        bits_printed_as=lambda s: 5 * s.levels * _MESSAGE,
        operations=lambda s: {_P.TRANSFER_REQUEST: 5 * s.levels},
        ms_printed="100 d",
        ms_printed_as=lambda s: 100.0 * s.d,
        guarantee="a fair coin, by oblivious transfer",
        note="its count of encryptions gives 100 ceil(log2 d) ms, not 100 d",
    ),
    Scheme(
        name="VGRR",
        source="Song, Xu, Zhu: Efficient Defenses against Output Poisoning Attacks on LDP, IEEE TIFS 18, 2023",
        content="l Pedersen commitments and openings",
        bits=lambda s: 2 * s.l * _MESSAGE,
        bits_formula="2 l 2048",
        bits_printed="2 l 2048 at worst",
        bits_printed_as=lambda s: 2 * s.l * _MESSAGE,
        operations=lambda s: {_P.COMMITMENT: 2 * s.l},
        ms_printed="20 l",
        ms_printed_as=lambda s: 20.0 * s.l,
        guarantee="a fair coin, by commitments and proofs",
        note="commitments and openings at its 1 ms each are 2 l ms, not 20 l; on P-256 a commitment is 264 bits, not 2048",
    ),
    Scheme(
        name="Secure OLH",
        source="Kato, Cao, Yoshikawa: Preventing Manipulation Attack in LDP Using Verifiable Randomization Mechanism, DBSec 2021",
        content="n commitments with openings, g = ceil(d/2) slots",
        bits=lambda s: (2 * s.n + s.slots) * _MESSAGE,
        bits_formula="(2 n + g) 2048",
        bits_printed="(2 n + g) 2048",
        bits_printed_as=lambda s: (2 * s.n + s.slots) * _MESSAGE,
        operations=lambda s: {_P.COMMITMENT: s.n, _P.PROOF: s.slots},
        ms_printed="10 n g",
        ms_printed_as=lambda s: 10.0 * s.n * s.slots,
        guarantee="a fair coin, by commitments and proofs",
        note="n commitments and g proofs at its unit costs are n + 20 g ms, a sum, not 10 n g",
    ),
    Scheme(
        name="OT-HCMS",
        source="Hadamard count-mean sketch behind oblivious transfer",
        content="2^tau ciphertexts of oblivious transfer, index 32, one bit",
        bits=lambda s: 2**s.tau * _MESSAGE + 32 + 1,
        bits_formula="2^tau 2048 + 32 + 1",
        bits_printed="8,209",
        bits_printed_as=lambda s: 8209,
        operations=lambda s: {_P.TRANSFER: 2**s.tau},
        ms_printed="30 2^tau",
        ms_printed_as=lambda s: 30.0 * 2**s.tau,
        guarantee="a fair coin, by oblivious transfer",
    ),
    Scheme(
        name="Harmony-PEEL, the paper",
        source="Shuai et al. 2025",
        content="k - 1 coordinates of ceil(log2(k - 1)) bits",
        bits=_peel_bits,
        bits_formula="(k - 1) ceil(log2(k - 1))",
        bits_printed="2,016",
        bits_printed_as=lambda s: 2016,
        operations=lambda s: {_P.HASH: 1, _P.PROJECTION: 1},
        ms_printed="0.01",
        ms_printed_as=lambda s: 0.01,
        guarantee="the residual exposes answers that are no codewords",
        note="not sealed; rounded to so few bits, honest reports leave a residual themselves",
    ),
    _own("Peel, this project", lambda sizes: sizes.k, Primitive.REPORT),
    _own("Peel, this project, k = 16", lambda sizes: sizes.d, Primitive.SMALL_REPORT),
    _verified("Peel, verified coins", lambda sizes: sizes.k, Primitive.REPORT),
    _verified("Peel, verified coins, k = 16", lambda sizes: sizes.d, Primitive.SMALL_REPORT),
)
