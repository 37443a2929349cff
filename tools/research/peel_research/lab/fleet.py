# SPDX-License-Identifier: MIT
"""The lab's devices: what honest ones send, made by the core in one go, and what attackers send in their place or besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile, encode_many, index_many, make_profile, open_many
from peel_core.primitives import READING_ONE, codeword
from peel_core.projection import reconstruct, reconstruction, search_seed
from peel_research.lab.attacks.record import Course, LabAttack
from peel_research.lab.data import LabData
from peel_research.lab.single import KIND_OF, block_of, is_categorical
from peel_tools.simulation.piece import HONEST, Identity, Piece, sealed_frame
from peel_tools.simulation.tricks import Workshop

__all__ = ["LabFleet", "Sent", "profiles_for"]

Ints = npt.NDArray[np.int64]
Frames = npt.NDArray[np.uint8]

_WIDTH = 48
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
    """A profile for the means of the data, and two for its frequencies."""
    numeric = [{"name": name, "low": -1, "high": 1} for name in data.names]
    counted = [{"name": data.subject, "categories": list(data.categories)}]
    return {
        "harmony": _profile("harmony", data.k, numeric, epsilon),
        "krr": _profile("krr", len(data.categories), counted, epsilon),
        "hashing": _profile("hashing", len(data.categories), counted, epsilon),
    }


def _profile(mechanism: str, size: int, attributes: Sequence[Mapping[str, object]], epsilon: float) -> Profile:
    """As wide as the largest mechanism needs: indices are fewer than attributes and categories, or as many."""
    width = max(_WIDTH, size)
    table = {"name": f"lab_{mechanism}", "epsilon": epsilon, "width": width}
    table |= {"seed": search_seed(width, size)[0], "quota": _QUOTA, "period": _PERIOD}
    more = {"kind": KIND_OF[mechanism]} | ({"force_category": True} if mechanism == "krr" else {})
    return make_profile(table | {"attribute": [{**attribute, **more} for attribute in attributes]})


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

    def readings(self, devices: Ints, numbers: Ints) -> npt.NDArray[np.int32]:
        """Return the readings of N reports: Q15 [N, k], or categories [N]."""
        source = self.data.category.astype(np.int32) if is_categorical(self.profile) else self.data.readings
        start = devices * (len(source) // len(self.ids))
        return np.asarray(source[(start + numbers) % len(source)])

    def honest(self, devices: Ints, numbers: Ints) -> Frames:
        """Frames of N honest reports, uint8[N, frame bytes]."""
        return self._encoded(devices, numbers, self.readings(devices, numbers))

    def _encoded(self, devices: Ints, numbers: Ints, readings: npt.NDArray[np.int32]) -> Frames:
        entropy = self.rng.bytes(64)
        return encode_many(
            self.profile, self.ids[devices], self.keyring.keys.of(devices), numbers, readings, entropy=entropy
        )

    def poisoned(self, attack: LabAttack, devices: Ints, numbers: Ints) -> list[Sent]:
        """Return the attackers' reports in the order of their numbers; devices int64[A], numbers int64[M]."""
        if attack.say is not None:
            return self._said(attack.say(self._course(devices, numbers)), numbers)
        who, when = np.tile(devices, len(numbers)), np.repeat(numbers, len(devices))
        if attack.lie is not None:
            readings = attack.lie(self.profile, self.readings(who, when), self.rng)
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

    def _course(self, devices: Ints, numbers: Ints) -> Course:
        """An honest course, tossed by the lab: what coins are bent from."""
        shape = len(devices), len(numbers)
        who, when = np.repeat(devices, len(numbers)), np.tile(numbers, len(devices))
        unit = np.zeros(shape, np.int64)
        if self.profile.units > 1:
            assigned = index_many(self.profile, self.ids[who], self.keyring.keys.of(who), when)
            unit = assigned.astype(np.int64).reshape(shape)
        readings = self.readings(who, when).astype(np.float64)
        if not is_categorical(self.profile):
            readings = readings[np.arange(len(who)), unit.ravel()] / READING_ONE
        blank = Course(
            profile=self.profile,
            rng=self.rng,
            devices=devices,
            unit=unit,
            value=readings.reshape(shape),
            index=unit,
            sign=np.ones(shape, np.int64),
            leaning=np.sign(self.data.means).astype(np.int64),
            sent=np.ones(shape, np.bool_),
            rule=np.full(shape, block_of(self.profile).rule, np.int64),
        )
        return blank.tossed(np.full(len(devices), self.profile.epsilon))

    def _said(self, course: Course, numbers: Ints) -> list[Sent]:
        """Seal what attackers say with their own keys, by number and then by device."""
        profile = self.profile
        words = {
            (index, sign): codeword(profile.seed, profile.width, index, int(sign < 0))
            for index in range(profile.k)
            for sign in (-1, 1)
        }
        ids = self.ids[course.devices].tolist()
        seals = [seal.tobytes() for seal in self.keyring.keys.seal[course.devices]]
        column, row = np.nonzero(course.sent.T)
        told = (numbers[column], row, course.index[row, column], course.sign[row, column], course.rule[row, column])
        return [
            Sent(ids[who], number, sealed_frame(profile, ids[who], number, seals[who], words[index, sign], rule))
            for number, who, index, sign, rule in zip(*(each.tolist() for each in told), strict=True)
        ]

    def _as_sent(self, devices: Ints, numbers: Ints, frames: Frames) -> list[Sent]:
        rows = zip(self.ids[devices].tolist(), numbers.tolist(), frames, strict=True)
        return [Sent(device, number, frame.tobytes()) for device, number, frame in rows]

    def _pieces(self, devices: Ints, numbers: Ints, frames: Frames) -> Iterator[Piece]:
        """Honest reports as the simulation's tricks take them."""
        sent = self._as_sent(devices, numbers, frames)
        decoded = self.decoded([each.frame for each in sent])
        for each, cell, sign in zip(sent, decoded[0].tolist(), decoded[1].tolist(), strict=True):
            yield Piece(each.device, each.number, HONEST, False, cell, cell % self.profile.k, sign, 0, each.frame)

    def decoded(self, payloads: Sequence[bytes]) -> tuple[Ints, Ints]:
        """Cells and signs that a gateway without any further doubt would read from what opens: the nearest codeword, any number."""
        opened = open_many(self.keyring, payloads, accept_unsealed=True)
        mine = opened.code == 0
        gamma = reconstruction(self.profile.seed, self.profile.width)
        index, sign, _ = reconstruct(gamma, opened.trits[mine])
        known = index < self.profile.k
        cell = self.profile.cell(opened.unit[mine].astype(np.int64), index.astype(np.int64))
        return cell[known], sign[known].astype(np.int64)
