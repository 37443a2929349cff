# SPDX-License-Identifier: MIT
"""What can be bet on devices that report by local hashing."""

from __future__ import annotations

from peel_gateway.mechanisms.game import Candidates, Face, Faces, Game, Sets, Shares, both_ends

__all__ = ["hashing_game"]

_ONE = 2.0**31
_REMEMBERED_HASHES = 2500
"""Up to so many hashes, what a device says about each is remembered; beyond, it would take too much room, and too long to come back."""
_REMEMBERED_COUNTS = 7500
"""The same for how often it says each symbol about each hash."""


def hashing_game(categories: int, symbols: int, digits: int, rule: int) -> Game:
    """The bets on devices that hash so many categories into a few symbols, with symbols^digits hashes.

    Eleven sixteenths of the capital for candidates: they find whoever supports one category, or a few. An eighth for what is said about
    each hash: it finds whoever supports any set of categories, by what is best for it under each hash, but a hash has to come back first.
    A sixteenth for shares: whoever is too sure of himself only where his categories fall together. An eighth for symbols alone: a device
    that does not even look at the hash. Which hashes came is not bet on: skipped numbers count, so picking among hashes gains nothing in
    a mean over reports. In one over devices it does (THREAT_MODEL.md, *Local hashing*).
    """
    least = (_ONE - rule) / (symbols * _ONE)
    most = (_ONE + (symbols - 1) * rule) / (symbols * _ONE)
    few, many = both_ends(symbols)
    hashes = symbols**digits
    faces = Faces(units=hashes, symbols=symbols, most=most, capital=dict.fromkeys((Face.PAST, Face.RECENT), 1 / 40))
    shares = Shares(units=hashes, symbols=symbols, most=most, least=least, capital=1 / 32)
    return Game(
        faces=faces if hashes <= _REMEMBERED_HASHES else None,
        shares=shares if hashes * symbols <= _REMEMBERED_COUNTS else None,
        symbols=Sets(
            items=symbols, few=few, many=many, most=most, least=least, past=1 / 16, notebooks=4, notebook=1 / 64
        ),
        candidates=Candidates(
            categories=categories,
            symbols=symbols,
            digits=digits,
            sizes=tuple(size for size in (1, 2, 4, 8) if size < symbols),
            votes=(4, 8, 16),
            most=most,
            least=least,
            capital=11 / 64,
        ),
    )
