# SPDX-License-Identifier: MIT
"""Choices among categories: directly, by kRR, or hashed, by local hashing.

**kRR**: the device says its own category with probability p, any other with probability q. With q = (2^31 - R)/(k 2^31) and
p = q + R/2^31 the share of category v is f_v = (n_v/N - q) / (p - q).

**Local hashing** (Wang et al. 2017): the number assigns a hash of the categories into g symbols, the device answers kRR over these. A
report speaks for every category whose symbol, under its hash, is the one that it says: for the device's own with probability
p = (1 + (g - 1) R/2^31)/g, and for any other with probability 1/g exactly, since under a random hash of the family (SPEC section 6.3)
two categories meet with probability 1/g. With C_v of N reports speaking for v its share is f_v = (C_v/N - 1/g) / (p - 1/g).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core import Block
from peel_core.hash_family import digits
from peel_core.hashing import supports
from peel_gateway.mechanisms.base import Form
from peel_gateway.mechanisms.bets import Alphabet, Bets, bets_on

__all__ = ["CHOICES", "HASHED_CHOICES", "hashing_bets", "krr_bets"]

Ints = npt.NDArray[np.int64]

Floats = npt.NDArray[np.float64]

Bools = npt.NDArray[np.bool_]

_ONE = 2.0**31


class _Choices(Form):
    signed = False

    def supported(self, block: Block, unit: Ints, column: Ints, sign: Ints) -> Bools:
        return np.asarray((column >= 0) & (column < block.symbols) & (sign > 0))

    def symbol(self, block: Block, cell: Ints, sign: Ints) -> Ints:
        return cell

    def alphabet(self, block: Block) -> Alphabet:
        return Alphabet(mechanism="krr", units=1, symbols=block.symbols, rule=block.rule)

    def chances(self, block: Block) -> tuple[float, float]:
        wrong = (_ONE - block.rule) / (block.symbols * _ONE)
        return wrong, wrong + block.rule / _ONE

    def speaking(self, block: Block, cell: Ints, weight: Floats) -> Floats:
        return np.bincount(cell, weight, block.symbols).astype(np.float64, copy=False)


class _HashedChoices(_Choices):
    def symbol(self, block: Block, cell: Ints, sign: Ints) -> Ints:
        return np.asarray(cell % block.symbols)

    def alphabet(self, block: Block) -> Alphabet:
        return _hashing_alphabet(block.domain, block.symbols, digits(block.symbols, block.domain), block.rule)

    def chances(self, block: Block) -> tuple[float, float]:
        return 1 / block.symbols, (1 + (block.symbols - 1) * block.rule / _ONE) / block.symbols

    def speaking(self, block: Block, cell: Ints, weight: Floats) -> Floats:
        return supports(cell, weight, block.symbols, block.domain)


CHOICES, HASHED_CHOICES = _Choices(), _HashedChoices()


def krr_bets(k: int, rule: int) -> Bets:
    """Return the bets on devices with k categories."""
    return bets_on([Alphabet(mechanism="krr", units=1, symbols=k, rule=rule)])


def hashing_bets(categories: int, symbols: int, digits: int, rule: int) -> Bets:
    """Return the bets on devices that hash so many categories into a few symbols, with symbols^digits hashes."""
    return bets_on([_hashing_alphabet(categories, symbols, digits, rule)])


def _hashing_alphabet(categories: int, symbols: int, digits: int, rule: int) -> Alphabet:
    return Alphabet(
        mechanism="hashing", units=symbols**digits, symbols=symbols, rule=rule, categories=categories, digits=digits
    )
