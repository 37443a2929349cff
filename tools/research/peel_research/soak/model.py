# SPDX-License-Identifier: MIT
"""The truth about a soak: every report that a device made, from the devices' side alone.

Simulated devices write down what they make before they send it. What a real application makes is seen in two places: in its
flash, whenever its power is cut, and on its line to the broker; a report that is in neither was never made.

A report must be stored if the device had reason to forget it, or still has it: only what was in the outbox of a flash that
is gone, or of a device that was revoked, may be missing. With verified coins it must also count, unless its batch became void: the
openings that were heard on the line say with which outcome.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from peel_core import Profile, open_many
from peel_core.coins import OPENING, open_message, split_frames
from peel_core.frame import DEVICE, NUMBER
from peel_core.projection import reconstruct, reconstruction
from peel_core.topics import device_topic
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_tools.network import Publish
from peel_tools.simulation.coins import counted_cell
from peel_tools.simulation.piece import HONEST, Piece
from peel_tools.simulation.truth import Truth

__all__ = ["REVOKED", "Model"]

REVOKED = "revoked"
"""The kind of an honest device's reports once the operator has revoked it: the gateway may refuse them."""

_Key = tuple[int, int, int]
"""Type, device and number of a frame. A report has type 0."""
_REPORT = 0
_NO_SUMS = np.zeros((0, 2), np.int64)


class Model:
    """The reports of the real applications, all with one profile. `complete` adds them to the truth of the simulated devices."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._lock = threading.Lock()
        self._frames: dict[_Key, bytes] = {}
        self._excused: set[_Key] = set()
        self._revoked: set[int] = set()
        self.conflicts = 0
        """Numbers that were seen with two bodies of one type: a device has tossed twice, or changed its answer."""

    def hear(self, message: Publish) -> None:
        """A message on the devices' line, whichever thread hears it."""
        if message.topic.endswith(b"/report"):
            self.found(split_frames(self._profile, message.payload))

    def found(self, frames: Iterable[bytes]) -> None:
        """Frames that a device has made: on its line, or reports in its flash."""
        with self._lock:
            for frame in frames:
                known = self._frames.setdefault(_key(frame), frame)
                self.conflicts += known != frame

    def excuse(self, frames: Iterable[bytes]) -> None:
        """Frames that their device cannot send any more: it never learned whether they are stored."""
        self._excused.update(map(_key, frames))

    def renew(self, device: int) -> None:
        """Note that a device gets a fresh bundle. With verified coins that voids its batches: their reports need not count."""
        if self._profile.verified:
            with self._lock:
                self._excused.update(key for key in self._frames if key[1] == device)

    def revoke(self, device: int) -> None:
        """Note that a device's reports may be refused from now on."""
        self._revoked.add(device)

    def complete(self, truth: Path, snapshot: FleetSnapshot) -> None:
        """Put everything into a truth file, for the referee: what must be stored as acknowledged, whatever the broker has said."""
        with self._lock:
            frames, excused = dict(self._frames), set(self._excused)
        pieces = self._pieces(snapshot, {key: frame for key, frame in frames.items() if key[0] == _REPORT})
        profile = self._profile.id
        messages = [(device_topic(snapshot.fleet, piece.device, "report"), profile, [piece]) for piece in pieces]
        keeper = Truth(truth)
        try:
            keeper.acknowledge([message.id for message in keeper.waiting()])  # simulated flash lives for ever
            keeper.enrol((device, profile, HONEST, None) for device in sorted({piece.device for piece in pieces}))
            sent = keeper.intend(messages, dict.fromkeys(range(len(messages)), _NO_SUMS))
            due = [_key(piece.frame) not in excused for piece in pieces]
            keeper.acknowledge([message.id for message, must in zip(sent, due, strict=True) if must])
            keeper.open([*self._outcomes(snapshot, frames, pieces)])
        finally:
            keeper.close()

    def _pieces(self, snapshot: FleetSnapshot, frames: Mapping[_Key, bytes]) -> list[Piece]:
        """The frames opened, with the fleet's keys and the core's own functions."""
        width = self._profile.width
        opened = open_many(snapshot.keyring, list(frames.values()))
        if len(opened) != len(frames) or opened.code.any():
            raise ValueError("a device has made a frame that does not open with its keys")
        gamma = reconstruction(self._profile.seed, width)
        index, sign, _ = reconstruct(gamma, np.ascontiguousarray(opened.trits[:, : width - 1]))
        cells = self._profile.cell(opened.unit.astype(np.int64), index)
        rows = zip(frames.items(), cells.tolist(), index.tolist(), sign.tolist(), strict=True)
        kinds = {True: REVOKED, False: HONEST}
        return [
            Piece(
                device, number, kinds[device in self._revoked], False, cell, place, face, 0, frame,
                opened=not self._profile.verified,
            )
            for ((_, device, number), frame), cell, place, face in rows
        ]  # fmt: skip

    def _outcomes(
        self, snapshot: FleetSnapshot, frames: Mapping[_Key, bytes], pieces: Iterable[Piece]
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield the outcomes of reports whose opening was heard: cell, sign, device, number."""
        keyring, size = snapshot.keyring, self._profile.opening_bytes
        for piece in pieces:
            opening = frames.get((OPENING, piece.device, piece.number))
            if opening is not None:
                key = keyring.keys.coin[keyring.find([piece.device], [piece.number])[0]].tobytes()
                _, body = open_message(key, size, opening)
                yield *counted_cell(self._profile, piece.cell, piece.sign, body[0]), piece.device, piece.number


def _key(frame: bytes) -> _Key:
    return frame[1], DEVICE.of(frame), NUMBER.of(frame)
