# SPDX-License-Identifier: MIT
"""Attackers by kind: one or more for each layer that is to expose them, and one that nothing can expose.

Network attackers see payloads and hold no key: they alter a share of the honest devices' reports, or add to them. Device attackers hold the
keys of the devices they run. Each kind says which verdicts its pieces must get and which verdict must expose its devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from peel_core import MECHANISMS, Profile
from peel_core.frame import DEVICE, NUMBER, PROFILE, TAG_BYTES, TRITS_AT
from peel_core.hashing import hashed
from peel_core.keys import KEY_BYTES
from peel_core.primitives import EPSILON_ONE, READING_ONE, codeword
from peel_gateway.model.verdict import Verdict
from peel_tools.simulation.piece import Identity, Piece, noisy_codeword, sealed_frame, unsealed_frame

__all__ = ["ATTACKS", "Attack", "Workshop", "parse_attack"]

_JUMP = 1 << 40
_TARGET = 0
"""The attribute that targeted attacks are after."""
_CATEGORY = 1
"""The category that they are after: not 0, which every hash leaves as it is."""
_BIAS = 0.95
_STRANGERS = 0x7000_0000
"""Ids from here on belong to nobody: fleets number their devices from 1."""


@dataclass
class Workshop:
    """What attackers work with."""

    rng: np.random.Generator
    identities: Mapping[int, Identity]

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


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A kind of attacker."""

    name: str
    help: str
    layer: str
    """The layer of the design that must expose it; empty where none can."""
    transform: Transform
    verdicts: frozenset[Verdict] = frozenset()
    """What its bad pieces must get, one of these."""
    causes: frozenset[Verdict] = frozenset()
    """What its devices must be exposed by, one of these; empty for network attackers."""
    by_device: bool = False
    """Share of devices (True) or of reports (False)."""
    mechanisms: frozenset[str] = frozenset(MECHANISMS)
    effort: float = 1.0
    """Reports per report of an honest device: who has to convince the statistics talks more."""
    reading: int | None = None
    """Q15 reading that its sensors claim."""


# ---- on the network: no key ----


def _garbage(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece, piece.turned("garbage", shop.bytes(0, 200), alone=True)]


def _truncation(piece: Piece, shop: Workshop) -> list[Piece]:
    length = int(shop.rng.integers(1, len(piece.frame)))
    return [piece, piece.turned("truncation", piece.frame[:length], alone=True)]


def _trailing(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece, piece.turned("trailing", shop.bytes(1, 60), last=True)]


def _stranger(piece: Piece, shop: Workshop) -> list[Piece]:
    device = int(shop.rng.integers(_STRANGERS, 2**32))
    profile = shop.identities[piece.device].profile
    frame = sealed_frame(
        profile, device, piece.number, shop.rng.bytes(KEY_BYTES), codeword(profile.seed, profile.width, 0, 0)
    )
    return [piece, piece.turned("stranger", frame)]


def _foreign(piece: Piece, shop: Workshop) -> list[Piece]:
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


def _forgery(piece: Piece, shop: Workshop) -> list[Piece]:
    profile = shop.identities[piece.device].profile
    number = piece.number + int(shop.rng.integers(1, 1000))
    trits = codeword(profile.seed, profile.width, _TARGET, 0)
    return [
        piece,
        piece.turned("forgery", sealed_frame(profile, piece.device, number, shop.rng.bytes(KEY_BYTES), trits)),
    ]


def _unsealed(piece: Piece, shop: Workshop) -> list[Piece]:
    """The seal taken off and the codeword negated: what structure alone could never see."""
    profile = shop.identities[piece.device].profile
    minus = int(piece.sign > 0)
    return [piece, piece.turned("unsealed", unsealed_frame(profile, piece.device, piece.number, piece.index, minus))]


def _splice(piece: Piece, shop: Workshop) -> list[Piece]:
    other = shop.other_than(piece.device)
    if other is None:
        return [piece]
    frame = DEVICE.put(piece.frame, other.device)
    return [piece, piece.turned("splice", frame)]


def _replay(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece, piece.turned("replay", piece.frame)]


def _tampering(piece: Piece, shop: Workshop) -> list[Piece]:
    """One bit of the number, far up so that it does not become 0, of the content or of the tag."""
    frame = bytearray(piece.frame)
    frame[int(shop.rng.integers(NUMBER.end - 2, len(frame)))] ^= 1 << int(shop.rng.integers(8))
    return [piece.turned("tampering", bytes(frame))]


def _negation(piece: Piece, shop: Workshop) -> list[Piece]:
    """Negates the trits where they would be if nothing were encrypted: b becomes 242 - b."""
    start, end = TRITS_AT, len(piece.frame) - TAG_BYTES
    body = bytes((242 - byte) % 256 for byte in piece.frame[start:end])
    return [piece.turned("negation", piece.frame[:start] + body + piece.frame[end:])]


def _loss(piece: Piece, shop: Workshop) -> list[Piece]:
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


def _reuse(piece: Piece, shop: Workshop) -> list[Piece]:
    profile = shop.identities[piece.device].profile
    index, sign = ((piece.index + 1) % profile.k, 1) if profile.categorical else (piece.index, -piece.sign)
    other = _with_symbol(piece, shop, index, sign)
    return [piece, piece.turned("reuse", other.frame)]


def _flood(piece: Piece, shop: Workshop) -> list[Piece]:
    """Honest numbers, and now and then one from far ahead: the first contact must not be the jump."""
    if shop.rng.random() < 0.5:
        return [piece]
    me = shop.identities[piece.device]
    trits = codeword(me.profile.seed, me.profile.width, _TARGET, 0)
    frame = sealed_frame(me.profile, me.device, piece.number + _JUMP, me.seal_key, trits)
    return [piece, piece.turned("flood", frame)]


def _budget(piece: Piece, shop: Workshop) -> list[Piece]:
    """Twice the epsilon, and honest about it in the frame: the estimate would be pulled outwards."""
    profile = shop.identities[piece.device].profile
    epsilon = min(2 * profile.epsilon_q20, 16 * EPSILON_ONE)
    trits = codeword(profile.seed, profile.width, piece.index, int(piece.sign < 0))
    return [piece.turned("budget", _resealed(piece, shop, trits, profile.rule_at(epsilon)))]


def _target(piece: Piece, shop: Workshop) -> list[Piece]:
    """The maximal gain attack (Cao, Jia, Gong 2021): the target attribute, whatever the number assigns."""
    if piece.index == _TARGET:
        return [_with_symbol(piece, shop, _TARGET, 1)]
    return [piece.turned("target", _with_symbol(piece, shop, _TARGET, 1).frame)]


def _encoder(piece: Piece, shop: Workshop) -> list[Piece]:
    profile = shop.identities[piece.device].profile
    trits = codeword(profile.seed ^ 0x5EED, profile.width, piece.index, int(piece.sign < 0))
    return [piece.turned("encoder", _resealed(piece, shop, trits))]


def _noise(piece: Piece, shop: Workshop) -> list[Piece]:
    profile = shop.identities[piece.device].profile
    count = int(shop.rng.integers(1, 6))
    places = [int(place) for place in shop.rng.choice(profile.width - 1, count, replace=False)]
    trits = noisy_codeword(profile, piece.index, int(piece.sign < 0), places)
    return [piece.turned("noise", _resealed(piece, shop, trits))]


def _stuck(piece: Piece, shop: Workshop) -> list[Piece]:
    return [_with_symbol(piece, shop, piece.index, 1)]


def _biased(piece: Piece, shop: Workshop) -> list[Piece]:
    return [_with_symbol(piece, shop, piece.index, 1 if shop.rng.random() < _BIAS else -1)]


def _overreport(piece: Piece, shop: Workshop) -> list[Piece]:
    """The symbol that speaks for the target category, whatever the hash makes of it."""
    profile = shop.identities[piece.device].profile
    symbol = _CATEGORY
    if profile.hash_domain:
        symbol = int(hashed(piece.cell // profile.k, _CATEGORY, profile.k, profile.hash_domain))
    return [_with_symbol(piece, shop, symbol, 1)]


def _hide_minus(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece] if piece.sign > 0 else []


def _hide_attribute(piece: Piece, shop: Workshop) -> list[Piece]:
    return [] if piece.index == _TARGET else [piece]


def _as_is(piece: Piece, shop: Workshop) -> list[Piece]:
    return [piece]


def _network(name: str, layer: str, verdicts: set[Verdict], transform: Transform, text: str) -> Attack:
    return Attack(name=name, help=text, layer=layer, verdicts=frozenset(verdicts), transform=transform)


def _device(name: str, layer: str, verdict: Verdict, transform: Transform, text: str) -> Attack:
    """An attack whose pieces are bad in themselves and expose their device."""
    bad = frozenset({verdict})
    return Attack(name=name, help=text, layer=layer, verdicts=bad, causes=bad, transform=transform, by_device=True)


def _statistical(
    name: str, transform: Transform, text: str, *, only: tuple[str, ...] = ("harmony",), effort: float = 2.0
) -> Attack:
    """An attack whose pieces are fine one by one."""
    return Attack(
        name=name, help=text, layer="statistics", causes=frozenset({Verdict.STATISTICS}), transform=transform,
        by_device=True, mechanisms=frozenset(only), effort=effort,
    )  # fmt: skip


_V = Verdict
_KINDS = (
    _network("garbage", "parse", {_V.MALFORMED, _V.PROFILE}, _garbage, "Random bytes of any length."),
    _network("truncation", "parse", {_V.MALFORMED}, _truncation, "Copies of reports, cut short."),
    _network("trailing", "parse", {_V.MALFORMED, _V.PROFILE}, _trailing, "Random bytes behind an honest report."),
    _network("stranger", "parse", {_V.DEVICE}, _stranger, "Reports of devices that do not exist."),
    _network("foreign", "parse", {_V.PROFILE}, _foreign, "Reports under a profile that is not the device's."),
    _network("forgery", "seal", {_V.SEAL}, _forgery, "Reports in a device's name under another key."),
    _network("tampering", "seal", {_V.SEAL}, _tampering, "Reports with one bit changed on the way."),
    _network("negation", "seal", {_V.SEAL}, _negation, "Reports with their codeword negated on the way."),
    _network("unsealed", "seal", {_V.UNSEALED}, _unsealed, "Negated copies with the seal taken off."),
    _network("splice", "seal", {_V.SEAL}, _splice, "Copies of reports under another device's name."),
    _network("replay", "freshness", {_V.REDELIVERED}, _replay, "The same bytes again; harmless, counted once."),
    _network("loss", "", set(), _loss, "Reports that never arrive; nobody's fault."),
    _device("reuse", "freshness", _V.REUSED, _reuse, "Devices that toss a second coin under a used number."),
    _device("flood", "freshness", _V.FLOOD, _flood, "Devices that jump to numbers far ahead."),
    _device("budget", "rule", _V.RULE, _budget, "Devices that toss with twice the epsilon."),
    Attack(
        name="target", help="Devices that report one attribute whatever their numbers assign (MGA).", layer="support",
        verdicts=frozenset({_V.SUPPORT}), causes=frozenset({_V.SUPPORT}), transform=_target, by_device=True,
        mechanisms=frozenset({"harmony"}),
    ),
    _device("encoder", "structure", _V.STRUCTURE, _encoder, "Devices with another projection."),
    _device("noise", "structure", _V.STRUCTURE, _noise, "Devices that add noise to the codeword."),
    _statistical("stuck", _stuck, "Devices whose coin always shows plus."),
    _statistical("biased", _biased, f"Devices whose coin shows plus {_BIAS:.0%} of the time.", effort=4.0),
    _statistical("overreport", _overreport, "Devices that always speak for one category.", only=("krr", "hashing")),
    _statistical("hide_minus", _hide_minus, "Devices that keep their minus reports back.", effort=4.0),
    _statistical("hide_attribute", _hide_attribute, "Devices that keep the reports of one attribute back.", effort=6.0),
    Attack(
        name="sensor", help="Devices whose sensor lies; no private protocol can expose it.", layer="",
        transform=_as_is, by_device=True, mechanisms=frozenset({"harmony"}), reading=READING_ONE,
    ),
)  # fmt: skip

ATTACKS: dict[str, Attack] = {attack.name: attack for attack in _KINDS}


def parse_attack(text: str) -> tuple[str, float]:
    """Read `kind=share`; ValueError says what is wrong with it."""
    name, _, share = text.partition("=")
    if name not in ATTACKS:
        raise ValueError(f"unknown attack {name!r}; known are: {', '.join(ATTACKS)}")
    try:
        value = float(share)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r}: give the share as a number from 0 to 1, such as {name}=0.05")
    return name, value
