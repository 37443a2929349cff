# SPDX-License-Identifier: MIT
"""Attacks on encoder, frame, wire and fleet: what the simulation does to single reports, and some more of the kind."""

from __future__ import annotations

from functools import partial

from peel_core.frame import NUMBER
from peel_core.primitives import codeword
from peel_gateway.model.verdict import Layer
from peel_research.lab.attacks.record import LabAttack, Needs, Place
from peel_tools.simulation import tricks
from peel_tools.simulation.piece import Piece, noisy_codeword, sealed_frame
from peel_tools.simulation.tricks import Workshop

__all__ = ["FRAME_ATTACKS"]


def dense_noise(piece: Piece, shop: Workshop) -> list[Piece]:
    """y + Delta as the paper has it: every other coordinate moves."""
    me = shop.identities[piece.device]
    trits = noisy_codeword(me.profile, piece.index, int(piece.sign < 0), list(range(0, me.profile.width - 1, 2)))
    rule = me.profile.blocks[int(me.profile.block_of_cell(piece.cell))].rule
    return [piece.turned("dense_noise", sealed_frame(me.profile, me.device, piece.number, me.seal_key, trits, rule))]


def in_anothers_name(piece: Piece, shop: Workshop) -> list[Piece]:
    """A codeword of the insider's choice under another device's name, sealed with the only key that he has."""
    other = shop.other_than(piece.device)
    if other is None:
        return [piece]
    me = shop.identities[piece.device]
    trits = codeword(me.profile.seed, me.profile.width, 0, 0)
    frame = sealed_frame(me.profile, other.device, piece.number, me.seal_key, trits)
    return [piece, piece.turned("in_anothers_name", frame)]


def under_another_number(piece: Piece, shop: Workshop) -> list[Piece]:
    """A copy of an honest report that claims to be the device's next one."""
    return [piece, piece.turned("under_another_number", NUMBER.put(piece.frame, piece.number + 1))]


_NO_CODEWORD = "Reconstruction leaves a residual that no codeword leaves."
_NO_KEY = "The seal does not fit."

_encoder = partial(LabAttack, place=Place.ENCODER, needs=Needs.KEYS, layer=Layer.STRUCTURE, why=_NO_CODEWORD)
_wire = partial(LabAttack, place=Place.WIRE, needs=Needs.LINE)

FRAME_ATTACKS = (
    _encoder(name="noise_on_y", help="One to five coordinates of the codeword changed.", turn=tricks.noise),
    _encoder(
        name="output_poisoning_projected",
        help="The paper's y + Delta: every other coordinate changed.",
        turn=dense_noise,
    ),
    _encoder(name="another_projection", help="Another Phi, from another seed.", turn=tricks.encoder),
    LabAttack(
        name="codeword_forgery_without_key",
        help="A valid codeword of the public Phi under the attacker's own key.",
        place=Place.FRAME,
        needs=Needs.PROFILE,
        layer=Layer.SEAL,
        why=_NO_KEY,
        turn=tricks.forgery,
    ),
    LabAttack(
        name="codeword_forgery_unsealed",
        help="A valid, negated codeword in a frame without a seal.",
        place=Place.FRAME,
        needs=Needs.PROFILE,
        layer=Layer.SEAL,
        why="Unsealed frames are refused.",
        turn=tricks.unsealed,
    ),
    LabAttack(
        name="codeword_forgery_in_anothers_name",
        help="A valid codeword in another device's name, sealed with the insider's own key.",
        place=Place.FRAME,
        needs=Needs.KEYS,
        layer=Layer.SEAL,
        why="A seal is made with one device's key for that device's header. It does not show who the insider is.",
        turn=in_anothers_name,
    ),
    LabAttack(
        name="second_coin_under_one_number",
        help="Another answer under a used number.",
        place=Place.FRAME,
        needs=Needs.KEYS,
        layer=Layer.FRESHNESS,
        why="A number may have one body.",
        turn=tricks.reuse,
    ),
    LabAttack(
        name="flood_of_numbers",
        help="Numbers far ahead of what time allows.",
        place=Place.FRAME,
        needs=Needs.KEYS,
        layer=Layer.FRESHNESS,
        why="Numbers advance no faster than the quota.",
        turn=tricks.flood,
    ),
    _wire(
        name="negation",
        help="The codeword is negated on the way.",
        layer=Layer.SEAL,
        why=f"{_NO_KEY} Structure alone sees nothing: the codebook is closed under negation.",
        turn=tricks.negation,
    ),
    _wire(
        name="tampering_one_bit",
        help="One bit changed on the way.",
        layer=Layer.SEAL,
        why=_NO_KEY,
        turn=tricks.tampering,
    ),
    _wire(
        name="copy_under_another_number",
        help="A copy of a report that claims to be the device's next one.",
        layer=Layer.SEAL,
        why=_NO_KEY,
        turn=under_another_number,
    ),
    _wire(
        name="splice",
        help="A report copied under another device's name.",
        layer=Layer.SEAL,
        why=_NO_KEY,
        turn=tricks.splice,
    ),
    _wire(
        name="replay",
        help="The same bytes again.",
        layer=Layer.FRESHNESS,
        why="The same number with the same bytes is counted once; nobody is blamed.",
        turn=tricks.replay,
    ),
    _wire(
        name="truncated_copy",
        help="Copies cut short.",
        layer=Layer.PARSE,
        why="Not a frame.",
        turn=tricks.truncation,
    ),
    _wire(
        name="garbage",
        help="Random bytes.",
        layer=Layer.PARSE,
        why="Not a frame.",
        turn=tricks.garbage,
    ),
    _wire(
        name="random_loss",
        help="Reports are lost at random, whatever they say.",
        layer=None,
        why="It is no device's fault and biases no estimate: the seal hides what is lost.",
        turn=tricks.loss,
    ),
    LabAttack(
        name="fake_devices_added",
        help="Reports of devices that were never enrolled.",
        place=Place.FLEET,
        needs=Needs.PROFILE,
        layer=Layer.PARSE,
        why="The gateway has no keys for them.",
        turn=tricks.stranger,
    ),
    LabAttack(
        name="real_devices_cloned",
        help="A second device with the same bundle, counting the same numbers.",
        place=Place.FLEET,
        needs=Needs.KEYS,
        layer=Layer.FRESHNESS,
        why="Two bodies arrive under one number.",
        turn=tricks.reuse,
    ),
)
