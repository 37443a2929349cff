# SPDX-License-Identifier: MIT
"""The attacks on reports: one function for each kind of `attackers.ATTACKS`, with its name.

Each takes a piece that an honest device has made, and returns the pieces that are sent instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from peel_core import Block, Profile
from peel_core.frame import DEVICE, NUMBER, PROFILE, TAG_BYTES, TRITS_AT
from peel_core.hashing import hashed
from peel_core.keys import KEY_BYTES
from peel_core.kinds import CHOICE, HASHED, SIGN
from peel_core.odds import EPSILON_ONE, odds_of
from peel_core.primitives import codeword
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
    "malformed_table",
    "mixed",
    "negation",
    "noise",
    "overreport",
    "refused_audit",
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
    "withheld_opening",
    "wrong_opening",
]

_JUMP_SECONDS = 10 * 365 * 86400
"""The time by which a flooding device jumps ahead of its quota. Its bundle lasts for twenty years."""
_MOST_BUDGET = int(5.5 * EPSILON_ONE)
"""The largest epsilon that a device claims to toss with."""
_CATEGORY = 1
"""The category of targeted attacks. It is not 0, which every hash maps to itself."""
BIAS = 0.95
_HONEST_NUMBERS = 60
"""The honest reports of a sleeper before it turns."""
_HOARD = 50
"""The reports that a burst saves before it sends them at once."""
_STRANGERS = 0x7000_0000
"""The first id that belongs to no device; fleets number their devices from 1."""


@dataclass
class Workshop:
    """The attackers' tools: random numbers, the devices' keys, and saved pieces."""

    rng: np.random.Generator
    identities: Mapping[int, Identity]
    hoards: dict[int, list[Piece]] = field(default_factory=dict)
    """Pieces that devices have made and not sent yet."""

    def __post_init__(self) -> None:
        self._peers: dict[int, list[Identity]] = {}
        for identity in self.identities.values():
            self._peers.setdefault(identity.profile.id, []).append(identity)

    def profiles(self) -> list[Profile]:
        """Return all profiles in use."""
        return [peers[0].profile for peers in self._peers.values()]

    def bytes(self, least: int, most: int) -> bytes:
        """Return random bytes of a random length."""
        return self.rng.bytes(int(self.rng.integers(least, most + 1)))

    def other_than(self, device: int) -> Identity | None:
        """Return another device with the same profile, or None."""
        peers = self._peers[self.identities[device].profile.id]
        place = int(self.rng.integers(len(peers)))
        other = peers[place] if peers[place].device != device else peers[place - 1]
        return other if other.device != device else None


Transform = Callable[[Piece, Workshop], Sequence[Piece]]
"""Returns the pieces that are sent instead of one: altered, with others, or no piece at all."""


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
    trits = codeword(profile.seed, profile.width, 0, 0)
    frame = sealed_frame(profile, device, piece.number, shop.rng.bytes(KEY_BYTES), trits)
    return [piece, piece.turned("stranger", frame)]


def foreign(piece: Piece, shop: Workshop) -> list[Piece]:
    """Use another profile of this fleet, or an unknown one."""
    mine = shop.identities[piece.device].profile
    others = [profile for profile in shop.profiles() if profile.id != mine.id]
    if others and shop.rng.random() < 0.5:
        profile = others[0]
        trits = codeword(profile.seed, profile.width, 0, 0)
        key = shop.identities[piece.device].seal_key
        frame = sealed_frame(profile, piece.device, piece.number, key, trits)
    else:
        frame = PROFILE.put(piece.frame, int(shop.rng.integers(2**32)))
    return [piece, piece.turned("foreign", frame, alone=True)]


def forgery(piece: Piece, shop: Workshop) -> list[Piece]:
    profile = shop.identities[piece.device].profile
    number = piece.number + int(shop.rng.integers(1, 1000))
    trits = codeword(profile.seed, profile.width, 0, 0)
    frame = sealed_frame(profile, piece.device, number, shop.rng.bytes(KEY_BYTES), trits)
    return [piece, piece.turned("forgery", frame)]


def unsealed(piece: Piece, shop: Workshop) -> list[Piece]:
    """Remove the seal and negate the codeword, which the structure layer alone cannot detect."""
    profile = shop.identities[piece.device].profile
    minus = int(piece.sign > 0)
    frame = unsealed_frame(profile, piece.device, piece.number, piece.index, minus, _block(piece, shop).rule)
    return [piece, piece.turned("unsealed", frame)]


def splice(piece: Piece, shop: Workshop) -> list[Piece]:
    other = shop.other_than(piece.device)
    if other is None:
        return [piece]
    frame = DEVICE.put(piece.frame, other.device)
    return [piece, piece.turned("splice", frame)]


def replay(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece, piece.turned("replay", piece.frame)]


def tampering(piece: Piece, shop: Workshop) -> list[Piece]:
    """Change one bit of the content, the tag, or the number's second byte (unless the number could become 0)."""
    frame = bytearray(piece.frame)
    first = NUMBER.end if frame[NUMBER.start] == 0 else NUMBER.end - 1
    place = int(shop.rng.integers(first, len(frame)))
    frame[place if place >= NUMBER.end else NUMBER.start + 1] ^= 1 << int(shop.rng.integers(8))
    return [piece.turned("tampering", bytes(frame))]


def negation(piece: Piece, shop: Workshop) -> list[Piece]:
    """Negate the trits as if they were not encrypted: b becomes 242 - b."""
    start, end = TRITS_AT, len(piece.frame) - TAG_BYTES
    body = bytes((242 - byte) % 256 for byte in piece.frame[start:end])
    return [piece.turned("negation", piece.frame[:start] + body + piece.frame[end:])]


def loss(piece: Piece, shop: Workshop) -> list[Piece]:
    return []


# ---- in the device: its own key ----


def _resealed(piece: Piece, shop: Workshop, trits: bytes, other_rule: int | None = None) -> bytes:
    me = shop.identities[piece.device]
    true = _block(piece, shop).rule if other_rule is None else other_rule
    return sealed_frame(me.profile, me.device, piece.number, me.seal_key, trits, true)


def _block(piece: Piece, shop: Workshop) -> Block:
    """Return the block of the question that a report answers."""
    profile = shop.identities[piece.device].profile
    return profile.blocks[int(profile.block_of_cell(piece.cell))]


def _signed(piece: Piece, shop: Workshop) -> bool:
    return _block(piece, shop).form == SIGN


def _with_symbol(piece: Piece, shop: Workshop, index: int, sign: int) -> Piece:
    """Return the same report with another valid outcome."""
    profile = shop.identities[piece.device].profile
    return piece.answering(
        index, sign, _resealed(piece, shop, codeword(profile.seed, profile.width, index, int(sign < 0)))
    )


def reuse(piece: Piece, shop: Workshop) -> list[Piece]:
    block = _block(piece, shop)
    index, sign = piece.index, -piece.sign
    if block.form != SIGN:
        index, sign = block.first_column + (piece.index - block.first_column + 1) % block.symbols, 1
    other = _with_symbol(piece, shop, index, sign)
    return [piece, piece.turned("reuse", other.frame)]


def flood(piece: Piece, shop: Workshop) -> list[Piece]:
    """Send honest numbers, and sometimes one from far ahead. The first report must not be the jump."""
    if shop.rng.random() < 0.5:
        return [piece]
    me = shop.identities[piece.device]
    trits = codeword(me.profile.seed, me.profile.width, 0, 0)
    number = piece.number + _JUMP_SECONDS * me.profile.quota // me.profile.period
    frame = sealed_frame(me.profile, me.device, number, me.seal_key, trits)
    return [piece, piece.turned("flood", frame)]


def budget(piece: Piece, shop: Workshop) -> list[Piece]:
    """Toss with twice the epsilon and say so in the frame. The estimate would be pulled outwards."""
    profile = shop.identities[piece.device].profile
    odds = odds_of(min(2 * profile.epsilon_q20, _MOST_BUDGET), _block(piece, shop).outcomes)
    trits = codeword(profile.seed, profile.width, piece.index, int(piece.sign < 0))
    return [piece.turned("budget", _resealed(piece, shop, trits, odds.rule))]


def target(piece: Piece, shop: Workshop) -> list[Piece]:
    """Answer the target question for every number: the maximal gain attack (Cao, Jia, Gong 2021)."""
    column = _target(piece, shop)
    told = _with_symbol(piece, shop, column, 1)
    return [told] if piece.index == column else [piece.turned("target", told.frame)]


def _target(piece: Piece, shop: Workshop) -> int:
    """Return the column of the question of targeted attacks: the first one that is answered by a sign."""
    blocks = shop.identities[piece.device].profile.blocks
    return next(block.first_column for block in blocks if block.form == SIGN)


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


def _showing(piece: Piece, shop: Workshop, plus: bool) -> list[Piece]:
    """Return the report with this sign; unchanged if it is not a sign."""
    return [_with_symbol(piece, shop, piece.index, 1 if plus else -1)] if _signed(piece, shop) else [piece]


def stuck(piece: Piece, shop: Workshop) -> list[Piece]:
    return _showing(piece, shop, True)


def biased(piece: Piece, shop: Workshop) -> list[Piece]:
    return _showing(piece, shop, bool(shop.rng.random() < BIAS))


def mixed(piece: Piece, shop: Workshop) -> list[Piece]:
    """Push half of the questions up and half down, so that the signs are even over all questions."""
    return _showing(piece, shop, (piece.device + piece.index) % 2 == 1)


def sleeper(piece: Piece, shop: Workshop) -> list[Piece]:
    """Be honest for a while, then always report plus."""
    return [piece] if piece.number <= _HONEST_NUMBERS else stuck(piece, shop)


def subset(piece: Piece, shop: Workshop) -> list[Piece]:
    """Report the categories of the lower half evenly. Each is named no more often than an honest device may."""
    block = _block(piece, shop)
    return [_speaking_for(piece, shop, int(shop.rng.integers(block.symbols // 2)))] if block.form == CHOICE else [piece]


def _speaking_for(piece: Piece, shop: Workshop, category: int) -> Piece:
    """Return the report whose symbol supports a category, under the assigned hash if there is one."""
    block = _block(piece, shop)
    symbol = category
    if block.form == HASHED:
        assigned = (piece.cell - block.first_cell) // block.symbols
        symbol = int(hashed(assigned, category, block.symbols, block.domain))
    return _with_symbol(piece, shop, block.first_column + symbol, 1)


def overreport(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece] if _signed(piece, shop) else [_speaking_for(piece, shop, _CATEGORY)]


def hide_minus(piece: Piece, shop: Workshop) -> list[Piece]:
    return [] if piece.sign < 0 and _signed(piece, shop) else [piece]


def hide_attribute(piece: Piece, shop: Workshop) -> list[Piece]:
    return [] if piece.index == _target(piece, shop) else [piece]


def sensor(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece]


def burst(piece: Piece, shop: Workshop) -> list[Piece]:
    """Save reports of a false reading and send them at once, to dominate one moment. The coin is honest."""
    hoard = shop.hoards.setdefault(piece.device, [])
    hoard.append(piece)
    if len(hoard) < _HOARD:
        return []
    return shop.hoards.pop(piece.device)


# ---- in the device, on verified coins: the reports are honest, `coin_tricks` alters the messages ----


def malformed_table(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece]


def wrong_opening(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece]


def withheld_opening(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece]


def refused_audit(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece]
