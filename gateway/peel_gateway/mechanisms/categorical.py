# SPDX-License-Identifier: MIT
"""Choices among categories: directly, by kRR, or hashed, by local hashing.

**kRR**: the device says its own category with probability p = keep/K, any other with probability q = change/K. The share of category v
is f_v = (n_v/N - q) / (p - q).

**Local hashing** (Wang et al. 2017): the number assigns a hash of the categories into g symbols, the device answers kRR over these. A
report speaks for every category whose symbol, under its hash, is the one that it says: for the device's own with probability
p = keep/K, and for any other with probability 1/g exactly, since under a random hash of the family (SPEC section 6.3)
two categories meet with probability 1/g. With C_v of N reports speaking for v its share is f_v = (C_v/N - 1/g) / (p - 1/g).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core import Block
from peel_core.hash_family import digits
from peel_core.hashing import supports
from peel_core.odds import Odds
from peel_gateway.mechanisms.base import Form
from peel_gateway.mechanisms.bets import Alphabet, Bets, bets_on

__all__ = ["CHOICES", "HASHED_CHOICES", "hashing_bets", "krr_bets"]

Ints = npt.NDArray[np.int64]

Floats = npt.NDArray[np.float64]

Bools = npt.NDArray[np.bool_]


class _Choices(Form):
    signed = False

    def supported(self, block: Block, unit: Ints, column: Ints, sign: Ints) -> Bools:
        return np.asarray((column >= 0) & (column < block.symbols) & (sign > 0))

    def symbol(self, block: Block, cell: Ints, sign: Ints) -> Ints:
        return cell

    def alphabet(self, block: Block) -> Alphabet:
        return Alphabet(mechanism="krr", units=1, odds=block.odds)

    def chances(self, block: Block) -> tuple[float, float]:
        return block.change / block.odds.total, block.keep / block.odds.total

    def speaking(self, block: Block, cell: Ints, weight: Floats) -> Floats:
        return np.bincount(cell, weight, block.symbols).astype(np.float64, copy=False)


class _HashedChoices(_Choices):
    def symbol(self, block: Block, cell: Ints, sign: Ints) -> Ints:
        return np.asarray(cell % block.symbols)

    def alphabet(self, block: Block) -> Alphabet:
        return _hashing_alphabet(block.domain, digits(block.symbols, block.domain), block.odds)

    def chances(self, block: Block) -> tuple[float, float]:
        return 1 / block.symbols, block.keep / block.odds.total

    def speaking(self, block: Block, cell: Ints, weight: Floats) -> Floats:
        return supports(cell, weight, block.symbols, block.domain)


CHOICES, HASHED_CHOICES = _Choices(), _HashedChoices()


def krr_bets(odds: Odds) -> Bets:
    """Return the bets on devices with as many categories as the coin has outcomes."""
    return bets_on([Alphabet(mechanism="krr", units=1, odds=odds)])


def hashing_bets(categories: int, digits: int, odds: Odds) -> Bets:
    """Return the bets on devices that hash so many categories into the outcomes of the coin, with outcomes^digits hashes."""
    return bets_on([_hashing_alphabet(categories, digits, odds)])


def _hashing_alphabet(categories: int, digits: int, odds: Odds) -> Alphabet:
    units = odds.outcomes**digits
    return Alphabet(mechanism="hashing", units=units, odds=odds, categories=categories, digits=digits)
