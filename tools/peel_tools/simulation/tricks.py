# SPDX-License-Identifier: MIT
"""What attackers do to reports: one function for each kind of `attackers.ATTACKS`, named like it.

Each takes a piece that an honest device has made, and returns what is sent in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from peel_core import Profile
from peel_core.frame import DEVICE, NUMBER, PROFILE, TAG_BYTES, TRITS_AT
from peel_core.hashing import hashed
from peel_core.keys import KEY_BYTES
from peel_core.primitives import EPSILON_ONE, codeword
from peel_tools.simulation.piece import Identity, Piece, noisy_codeword, sealed_frame, unsealed_frame

__all__ = [
    "BIAS",
    "Transform",
    "Workshop",
    "biased",
    "budget",
    "burst",
    "encoder",
    "flood",
    "foreign",
    "forgery",
    "garbage",
    "hide_attribute",
    "hide_minus",
    "loss",
    "mixed",
    "negation",
    "noise",
    "overreport",
    "replay",
    "reuse",
    "sensor",
    "sleeper",
    "splice",
    "stranger",
    "stuck",
    "subset",
    "tampering",
    "target",
    "trailing",
    "truncation",
    "unsealed",
]

_JUMP_SECONDS = 10 * 365 * 86400
"""How far ahead of its quota a flooding device jumps: well within its bundle, which lasts for twenty years."""
_TARGET = 0
"""The attribute that targeted attacks are after."""
_CATEGORY = 1
"""The category that they are after: not 0, which every hash leaves as it is."""
BIAS = 0.95
_HONEST_NUMBERS = 60
"""What a sleeper tosses honestly before it turns."""
_HOARD = 50
"""Reports that are saved before they are sent at once."""
_STRANGERS = 0x7000_0000
"""Ids from here on belong to nobody: fleets number their devices from 1."""


@dataclass
class Workshop:
    """What attackers work with."""

    rng: np.random.Generator
    identities: Mapping[int, Identity]
    hoards: dict[int, list[Piece]] = field(default_factory=dict)
    """What devices have made and not sent yet."""

    def __post_init__(self) -> None:
        self._peers: dict[int, list[Identity]] = {}
        for identity in self.identities.values():
            self._peers.setdefault(identity.profile.id, []).append(identity)

    def profiles(self) -> list[Profile]:
        """All profiles in use."""
        return [peers[0].profile for peers in self._peers.values()]

    def bytes(self, least: int, most: int) -> bytes:
        """Random bytes of a random length."""
        return self.rng.bytes(int(self.rng.integers(least, most + 1)))

    def other_than(self, device: int) -> Identity | None:
        """Another device with the same profile; None when there is none."""
        peers = self._peers[self.identities[device].profile.id]
        place = int(self.rng.integers(len(peers)))
        other = peers[place] if peers[place].device != device else peers[place - 1]
        return other if other.device != device else None


Transform = Callable[[Piece, Workshop], Sequence[Piece]]
"""What comes out where a piece went in: itself altered, with others, or nothing."""


# ---- on the network: no key ----


def garbage(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece, piece.turned("garbage", shop.bytes(0, 200), alone=True)]


def truncation(piece: Piece, shop: Workshop) -> list[Piece]:
    length = int(shop.rng.integers(1, len(piece.frame)))
    return [piece, piece.turned("truncation", piece.frame[:length], alone=True)]


def trailing(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece, piece.turned("trailing", shop.bytes(1, 60), last=True)]


def stranger(piece: Piece, shop: Workshop) -> list[Piece]:
    device = int(shop.rng.integers(_STRANGERS, 2**32))
    profile = shop.identities[piece.device].profile
    frame = sealed_frame(
        profile, device, piece.number, shop.rng.bytes(KEY_BYTES), codeword(profile.seed, profile.width, 0, 0)
    )
    return [piece, piece.turned("stranger", frame)]


def foreign(piece: Piece, shop: Workshop) -> list[Piece]:
    """Another profile: one of this fleet that is not the device's, or one that nobody knows."""
    mine = shop.identities[piece.device].profile
    others = [profile for profile in shop.profiles() if profile.id != mine.id]
    if others and shop.rng.random() < 0.5:
        profile = others[0]
        trits = codeword(profile.seed, profile.width, 0, 0)
        frame = sealed_frame(profile, piece.device, piece.number, shop.identities[piece.device].seal_key, trits)
    else:
        frame = PROFILE.put(piece.frame, int(shop.rng.integers(2**32)))
    return [piece, piece.turned("foreign", frame, alone=True)]


def forgery(piece: Piece, shop: Workshop) -> list[Piece]:
    profile = shop.identities[piece.device].profile
    number = piece.number + int(shop.rng.integers(1, 1000))
    trits = codeword(profile.seed, profile.width, _TARGET, 0)
    return [
        piece,
        piece.turned("forgery", sealed_frame(profile, piece.device, number, shop.rng.bytes(KEY_BYTES), trits)),
    ]


def unsealed(piece: Piece, shop: Workshop) -> list[Piece]:
    """The seal taken off and the codeword negated: what structure alone could never see."""
    profile = shop.identities[piece.device].profile
    minus = int(piece.sign > 0)
    return [piece, piece.turned("unsealed", unsealed_frame(profile, piece.device, piece.number, piece.index, minus))]


def splice(piece: Piece, shop: Workshop) -> list[Piece]:
    other = shop.other_than(piece.device)
    if other is None:
        return [piece]
    frame = DEVICE.put(piece.frame, other.device)
    return [piece, piece.turned("splice", frame)]


def replay(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece, piece.turned("replay", piece.frame)]


def tampering(piece: Piece, shop: Workshop) -> list[Piece]:
    """One bit of the content, of the tag, or of the number's second byte, unless that could make it 0, which no bundle has."""
    frame = bytearray(piece.frame)
    first = NUMBER.end if frame[NUMBER.start] == 0 else NUMBER.end - 1
    place = int(shop.rng.integers(first, len(frame)))
    frame[place if place >= NUMBER.end else NUMBER.start + 1] ^= 1 << int(shop.rng.integers(8))
    return [piece.turned("tampering", bytes(frame))]


def negation(piece: Piece, shop: Workshop) -> list[Piece]:
    """Negates the trits where they would be if nothing were encrypted: b becomes 242 - b."""
    start, end = TRITS_AT, len(piece.frame) - TAG_BYTES
    body = bytes((242 - byte) % 256 for byte in piece.frame[start:end])
    return [piece.turned("negation", piece.frame[:start] + body + piece.frame[end:])]


def loss(piece: Piece, shop: Workshop) -> list[Piece]:
    return []


# ---- in the device: its own key ----


def _resealed(piece: Piece, shop: Workshop, trits: bytes, rule: int | None = None) -> bytes:
    me = shop.identities[piece.device]
    return sealed_frame(me.profile, me.device, piece.number, me.seal_key, trits, rule)


def _with_symbol(piece: Piece, shop: Workshop, index: int, sign: int) -> Piece:
    """The same report with another outcome, which is a codeword all the same."""
    profile = shop.identities[piece.device].profile
    return piece.answering(
        index, sign, _resealed(piece, shop, codeword(profile.seed, profile.width, index, int(sign < 0)))
    )


def reuse(piece: Piece, shop: Workshop) -> list[Piece]:
    profile = shop.identities[piece.device].profile
    index, sign = ((piece.index + 1) % profile.k, 1) if profile.categorical else (piece.index, -piece.sign)
    other = _with_symbol(piece, shop, index, sign)
    return [piece, piece.turned("reuse", other.frame)]


def flood(piece: Piece, shop: Workshop) -> list[Piece]:
    """Honest numbers, and now and then one from far ahead: the first contact must not be the jump."""
    if shop.rng.random() < 0.5:
        return [piece]
    me = shop.identities[piece.device]
    trits = codeword(me.profile.seed, me.profile.width, _TARGET, 0)
    number = piece.number + _JUMP_SECONDS * me.profile.quota // me.profile.period
    frame = sealed_frame(me.profile, me.device, number, me.seal_key, trits)
    return [piece, piece.turned("flood", frame)]


def budget(piece: Piece, shop: Workshop) -> list[Piece]:
    """Twice the epsilon, and honest about it in the frame: the estimate would be pulled outwards."""
    profile = shop.identities[piece.device].profile
    epsilon = min(2 * profile.epsilon_q20, 16 * EPSILON_ONE)
    trits = codeword(profile.seed, profile.width, piece.index, int(piece.sign < 0))
    return [piece.turned("budget", _resealed(piece, shop, trits, profile.rule_at(epsilon)))]


def target(piece: Piece, shop: Workshop) -> list[Piece]:
    """The maximal gain attack (Cao, Jia, Gong 2021): the target attribute, whatever the number assigns."""
    if piece.index == _TARGET:
        return [_with_symbol(piece, shop, _TARGET, 1)]
    return [piece.turned("target", _with_symbol(piece, shop, _TARGET, 1).frame)]


def encoder(piece: Piece, shop: Workshop) -> list[Piece]:
    profile = shop.identities[piece.device].profile
    trits = codeword(profile.seed ^ 0x5EED, profile.width, piece.index, int(piece.sign < 0))
    return [piece.turned("encoder", _resealed(piece, shop, trits))]


def noise(piece: Piece, shop: Workshop) -> list[Piece]:
    profile = shop.identities[piece.device].profile
    count = int(shop.rng.integers(1, 6))
    places = [int(place) for place in shop.rng.choice(profile.width - 1, count, replace=False)]
    trits = noisy_codeword(profile, piece.index, int(piece.sign < 0), places)
    return [piece.turned("noise", _resealed(piece, shop, trits))]


def stuck(piece: Piece, shop: Workshop) -> list[Piece]:
    return [_with_symbol(piece, shop, piece.index, 1)]


def biased(piece: Piece, shop: Workshop) -> list[Piece]:
    return [_with_symbol(piece, shop, piece.index, 1 if shop.rng.random() < BIAS else -1)]


def mixed(piece: Piece, shop: Workshop) -> list[Piece]:
    """A direction of its own for each attribute, half of them plus: over all attributes the signs are even."""
    return [_with_symbol(piece, shop, piece.index, 1 if (piece.device + piece.index) % 2 else -1)]


def sleeper(piece: Piece, shop: Workshop) -> list[Piece]:
    """Honest for a while, then always plus."""
    return [piece] if piece.number <= _HONEST_NUMBERS else stuck(piece, shop)


def subset(piece: Piece, shop: Workshop) -> list[Piece]:
    """Any category of the lower half, evenly: none of them is named more often than an honest device may."""
    profile = shop.identities[piece.device].profile
    size = (profile.hash_domain or profile.k) // 2
    return [_speaking_for(piece, shop, int(shop.rng.integers(size)))]


def _speaking_for(piece: Piece, shop: Workshop, category: int) -> Piece:
    """The symbol that speaks for a category, whatever the hash makes of it."""
    profile = shop.identities[piece.device].profile
    symbol = category
    if profile.hash_domain:
        symbol = int(hashed(piece.cell // profile.k, category, profile.k, profile.hash_domain))
    return _with_symbol(piece, shop, symbol, 1)


def overreport(piece: Piece, shop: Workshop) -> list[Piece]:
    return [_speaking_for(piece, shop, _CATEGORY)]


def hide_minus(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece] if piece.sign > 0 else []


def hide_attribute(piece: Piece, shop: Workshop) -> list[Piece]:
    return [] if piece.index == _TARGET else [piece]


def sensor(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece]


def burst(piece: Piece, shop: Workshop) -> list[Piece]:
    """Nothing for a while, then everything at once, to own a moment: an honest coin, for a reading that is a lie."""
    hoard = shop.hoards.setdefault(piece.device, [])
    hoard.append(piece)
    if len(hoard) < _HOARD:
        return []
    return shop.hoards.pop(piece.device)
