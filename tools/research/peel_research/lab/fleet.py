# SPDX-License-Identifier: MIT
"""The lab's devices: what honest ones send, made by the core in one go, and what attackers send in their place or besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile, encode_many, make_profile, open_many
from peel_core.kinds import MAX_WEIGHT, SIGN, Question
from peel_core.primitives import READING_ONE, codeword
from peel_core.projection import reconstruct, reconstruction, search_seed
from peel_research.lab.aim import MIXED, Aim
from peel_research.lab.attacks.record import Course, LabAttack, Say
from peel_research.lab.data import LabData
from peel_tools.simulation.piece import HONEST, Identity, Piece, sealed_frame
from peel_tools.simulation.traces import to_q15
from peel_tools.simulation.tricks import Workshop

__all__ = ["LabFleet", "Sent", "profiles_for"]

Ints = npt.NDArray[np.int64]
Frames = npt.NDArray[np.uint8]

Attributes = Mapping[str, Any]
"""One [[attribute]] table."""

_THRESHOLDS = (-0.3, 0.3)
_RUNGS = 4
_MOST_CATEGORIES = 512
"""More do not fit into a mixed profile without hashing."""
_BINNED = "binned"
_QUOTA, _PERIOD = 1200, 60


class Sent(NamedTuple):
    """Something that an attacker sent."""

    device: int
    number: int
    """Of the honest report that it was made from."""
    frame: bytes
    bad: bool = True
    """Whether there is anything wrong with it. Who forges in others' names goes on reporting in his own."""


def profiles_for(data: LabData, epsilon: float) -> dict[str, Profile]:
    """Return profiles of the data by mechanism: one for means, two for frequencies, and a mixed one with every kind of attribute."""
    means = [{"kind": "mean", "name": name, "low": -1, "high": 1} for name in data.names]
    return {
        "harmony": _profile("harmony", means, epsilon),
        "krr": _profile("krr", [_counted(data, "category")], epsilon),
        "hashing": _profile("hashing", [_counted(data, "hashed")], epsilon),
        MIXED: _profile(MIXED, list(_mixed(data, means)), epsilon),
    }


def _mixed(data: LabData, means: Sequence[Attributes]) -> Iterator[Attributes]:
    """Yield attributes of every kind. Weights give each kind about as many reports as the means have together."""
    yield from means

    def weight(questions: int) -> dict[str, int]:
        return {"weight": min(MAX_WEIGHT, max(1, round(len(means) / questions)))}

    yield {"kind": "above", "name": data.names[0], "thresholds": list(_THRESHOLDS), **weight(len(_THRESHOLDS))}
    yield {"kind": "ladder", "name": data.names[-1], "low": -1, "high": 1, "rungs": _RUNGS, **weight(_RUNGS)}
    if len(data.categories) <= _MOST_CATEGORIES:
        yield {**_counted(data, "category"), **weight(1)}
    yield {**_counted(data, "hashed"), **weight(1)}


def _counted(data: LabData, kind: str) -> Attributes:
    """An attribute of the data's categories. Bins of a numeric column are another reading than the numbers in it."""
    name = _BINNED if data.subject in data.names else data.subject
    force = {"force_category": True} if kind == "category" else {}
    return {"kind": kind, "name": name, "categories": list(data.categories), **force}


def _profile(mechanism: str, attributes: Sequence[Attributes], epsilon: float) -> Profile:
    """Make a profile that is as wide as its symbols need."""
    table = {
        "name": f"lab_{mechanism}",
        "epsilon": epsilon,
        "verify": False,
        "quota": _QUOTA,
        "period": _PERIOD,
        "attribute": attributes,
    }
    draft = make_profile({**table, "seed": 0})
    return replace(draft, seed=search_seed(draft.width, draft.k)[0])


@dataclass(frozen=True)
class LabFleet:
    """Devices of one profile that read the lab's data, each from a place of its own on."""

    data: LabData
    profile: Profile
    keyring: Keyring
    rng: np.random.Generator

    @property
    def ids(self) -> npt.NDArray[np.uint32]:
        """All devices; elsewhere here a device is a position among them."""
        return self.keyring.device_ids

    @cached_property
    def _columns(self) -> list[npt.NDArray[np.int32]]:
        """The data as each question takes it, int32[rows]: Q15, or categories."""
        return [self._column(question) for question in self.profile.questions]

    def _column(self, question: Question) -> npt.NDArray[np.int32]:
        attribute = self.profile.attributes[question.attribute]
        if question.form != SIGN:
            return self.data.category.astype(np.int32)
        return to_q15(attribute, question, self.data.values[:, self.data.names.index(attribute.name)])

    def readings(self, devices: Ints, numbers: Ints) -> npt.NDArray[np.int32]:
        """Return the readings of N reports, int32[N, questions]: Q15, or categories."""
        found = np.empty((len(devices), len(self._columns)), np.int32)
        for place, source in enumerate(self._columns):
            found[:, place] = source[(devices * (len(source) // len(self.ids)) + numbers) % len(source)]
        return found

    def honest(self, devices: Ints, numbers: Ints) -> Frames:
        """Frames of N honest reports, uint8[N, frame bytes]."""
        return self._encoded(devices, numbers, self.readings(devices, numbers))

    def _encoded(self, devices: Ints, numbers: Ints, readings: npt.NDArray[np.int32]) -> Frames:
        entropy = self.rng.bytes(64)
        return encode_many(
            self.profile, self.ids[devices], self.keyring.keys.of(devices), numbers, readings, entropy=entropy
        )

    def poisoned(self, attack: LabAttack, aim: Aim, devices: Ints, numbers: Ints) -> list[Sent]:
        """Return the attackers' reports in the order of their numbers; devices int64[A], numbers int64[M]."""
        if attack.say is not None:
            return self._said(attack.say, aim, devices, numbers)
        who, when = np.tile(devices, len(numbers)), np.repeat(numbers, len(devices))
        if attack.lie is not None:
            readings, mine = self.readings(who, when), list(aim.questions)
            readings[:, mine] = attack.lie(aim, readings[:, mine], self.rng)
            return self._as_sent(who, when, self._encoded(who, when, readings))
        return self.turned(attack, who, when, self.honest(who, when))

    def turned(self, attack: LabAttack, devices: Ints, numbers: Ints, frames: Frames) -> list[Sent]:
        """Return the pieces that an attack makes of N honest reports."""
        assert attack.turn is not None
        shop = Workshop(self.rng, self._identities())
        return [
            Sent(piece.device, piece.number, out.frame, out.bad)
            for piece in self._pieces(devices, numbers, frames)
            for out in attack.turn(piece, shop)
        ]

    def _identities(self) -> dict[int, Identity]:
        rows = zip(self.ids.tolist(), self.keyring.keys.seal, self.keyring.keys.index, strict=True)
        return {device: Identity(device, self.profile, seal.tobytes(), index.tobytes()) for device, seal, index in rows}

    def course(self, aim: Aim, devices: Ints, numbers: Ints) -> tuple[Course, Frames]:
        """Return what devices say honestly, and its frames, uint8[A, M, frame bytes]."""
        shape = len(devices), len(numbers)
        who, when = np.repeat(devices, len(numbers)), np.tile(numbers, len(devices))
        readings = self.readings(who, when)
        frames = self._encoded(who, when, readings)
        unit, column, sign = (each.reshape(shape) for each in self._decoded(list(map(bytes, frames))))
        aimed = aim.assigned(unit)
        value = readings[np.arange(len(who)), self.profile.question(unit).ravel()].reshape(shape) * aimed
        course = Course(
            aim=aim,
            rng=self.rng,
            devices=devices,
            assigned=unit,
            aimed=aimed,
            honest=(column, sign),
            unit=aim.local_unit(unit),
            value=value / READING_ONE if aim.signed else value.astype(np.float64),
            index=aim.local_column(column),
            sign=np.where(aimed, sign, 1),
            leaning=self._leaning(),
            sent=np.ones(shape, np.bool_),
            rule=np.broadcast_to(self.profile.rules(unit), shape),
        )
        return course, frames.reshape(*shape, -1)

    def _leaning(self) -> Ints:
        pairs = zip(self.profile.questions, self._columns, strict=True)
        return np.array([np.sign(source.mean()) if each.form == SIGN else 0 for each, source in pairs], np.int64)

    def _said(self, say: Say, aim: Aim, devices: Ints, numbers: Ints) -> list[Sent]:
        """Seal what attackers say with their own keys, by number and then by device. Honest answers stay as they were encoded."""
        profile = self.profile
        honest, frames = self.course(aim, devices, numbers)
        course = say(honest)
        words = {
            (index, sign): codeword(profile.seed, profile.width, index, int(sign < 0))
            for index in range(profile.k)
            for sign in (-1, 1)
        }
        (index, sign), before = course.answers(), honest.honest
        same = (index == before[0]) & (sign == before[1]) & (course.rule == honest.rule)
        ids = self.ids[devices].tolist()
        seals = [seal.tobytes() for seal in self.keyring.keys.seal[devices]]

        def frame(row: int, column: int) -> bytes:
            if same[row, column]:
                return bytes(frames[row, column])
            trits = words[int(index[row, column]), int(sign[row, column])]
            rule = int(course.rule[row, column])
            return sealed_frame(profile, ids[row], int(numbers[column]), seals[row], trits, rule)

        places = zip(*(each.tolist() for each in np.nonzero(course.sent.T)), strict=True)
        return [Sent(ids[row], int(numbers[column]), frame(row, column)) for column, row in places]

    def _as_sent(self, devices: Ints, numbers: Ints, frames: Frames) -> list[Sent]:
        rows = zip(self.ids[devices].tolist(), numbers.tolist(), frames, strict=True)
        return [Sent(device, number, frame.tobytes()) for device, number, frame in rows]

    def _pieces(self, devices: Ints, numbers: Ints, frames: Frames) -> Iterator[Piece]:
        """Honest reports as the simulation's tricks take them."""
        sent = self._as_sent(devices, numbers, frames)
        unit, column, sign = self._decoded([each.frame for each in sent])
        rows = zip(sent, self.profile.cell(unit, column).tolist(), column.tolist(), sign.tolist(), strict=True)
        for each, cell, index, toss in rows:
            yield Piece(each.device, each.number, HONEST, False, cell, index, toss, 0, each.frame)

    def decoded(self, payloads: Sequence[bytes]) -> tuple[Ints, Ints]:
        """Cells and signs that a gateway without any further doubt would read from what opens: the nearest codeword, any number.

        An answer to another question than the number assigns counts for the question that it answers.
        """
        unit, column, sign = self._decoded(payloads)
        return self._cells(unit, column), sign

    def _cells(self, unit: Ints, column: Ints) -> Ints:
        firsts = np.array([block.first_column for block in self.profile.blocks])
        found = np.zeros(len(unit), np.int64)
        answered, asked = np.searchsorted(firsts, column, side="right") - 1, self.profile.block_of_unit(unit)
        for place, block in enumerate(self.profile.blocks):
            # Without a hash of its own, an answer counts under the first one.
            rows = answered == place
            its = np.where(asked == place, unit, block.first_unit)[rows]
            found[rows] = self.profile.cell(its, column[rows])
        return found

    def _decoded(self, payloads: Sequence[bytes]) -> tuple[Ints, Ints, Ints]:
        """Units, columns and signs of what opens and is near a codeword."""
        opened = open_many(self.keyring, payloads, accept_unsealed=True)
        mine = opened.code == 0
        gamma = reconstruction(self.profile.seed, self.profile.width)
        index, sign, _ = reconstruct(gamma, opened.trits[mine])
        known = index < self.profile.k
        return (
            opened.unit[mine][known].astype(np.int64),
            index[known].astype(np.int64),
            sign[known].astype(np.int64),
        )
