# SPDX-License-Identifier: MIT
"""The truth about a soak: every report that a device made, from the devices' side alone.

Simulated devices write down what they make before they send it. What a real application makes is seen in two places: in its
flash, whenever its power is cut, and on its line to the broker; a report that is in neither was never made.

A report must be stored if the device had reason to forget it, or still has it: only what was in the outbox of a flash that
is gone, or of a device that was revoked, may be missing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from peel_core import Profile, open_many
from peel_core.frame import DEVICE, NUMBER, split
from peel_core.projection import reconstruct, reconstruction
from peel_core.topics import device_topic
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_tools.network import Publish
from peel_tools.simulation.piece import HONEST, Piece
from peel_tools.simulation.truth import Truth

__all__ = ["REVOKED", "Model"]

REVOKED = "revoked"
"""The kind of an honest device's reports once the operator has revoked it: the gateway may refuse them."""

_NO_SUMS = np.zeros((0, 2), np.int64)


class Model:
    """The reports of the real applications, all with one profile. `complete` adds them to the truth of the simulated devices."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._lock = threading.Lock()
        self._frames: dict[tuple[int, int], bytes] = {}
        self._excused: set[tuple[int, int]] = set()
        self._revoked: set[int] = set()
        self.conflicts = 0
        """Numbers that were seen with two bodies: a device has tossed twice."""

    def hear(self, message: Publish) -> None:
        """A message on the devices' line, whichever thread hears it."""
        if message.topic.endswith(b"/report"):
            self.found(split(message.payload, self._profile.width))

    def found(self, frames: Iterable[bytes]) -> None:
        """Frames that a device has made: on its line, or in its flash."""
        with self._lock:
            for frame in frames:
                known = self._frames.setdefault(_key(frame), frame)
                self.conflicts += known != frame

    def excuse(self, frames: Iterable[bytes]) -> None:
        """Frames that their device cannot send any more: it never learned whether they are stored."""
        self._excused.update(map(_key, frames))

    def revoke(self, device: int) -> None:
        """Note that a device's reports may be refused from now on."""
        self._revoked.add(device)

    def complete(self, truth: Path, snapshot: FleetSnapshot) -> None:
        """Put everything into a truth file, for the referee: what must be stored as acknowledged, whatever the broker has said."""
        pieces = self._pieces(snapshot)
        profile = self._profile.id
        messages = [(device_topic(snapshot.fleet, piece.device, "report"), profile, [piece]) for piece in pieces]
        keeper = Truth(truth)
        try:
            keeper.acknowledge([message.id for message in keeper.waiting()])  # simulated flash lives for ever
            keeper.enrol((device, profile, HONEST, None) for device in sorted({piece.device for piece in pieces}))
            sent = keeper.intend(messages, dict.fromkeys(range(len(messages)), _NO_SUMS))
            due = [_key(piece.frame) not in self._excused for piece in pieces]
            keeper.acknowledge([message.id for message, must in zip(sent, due, strict=True) if must])
        finally:
            keeper.close()

    def _pieces(self, snapshot: FleetSnapshot) -> list[Piece]:
        """The frames opened, with the fleet's keys and the core's own functions."""
        width = self._profile.width
        opened = open_many(snapshot.keyring, list(self._frames.values()))
        if len(opened) != len(self._frames) or opened.code.any():
            raise ValueError("a device has made a frame that does not open with its keys")
        gamma = reconstruction(self._profile.seed, width)
        index, sign, _ = reconstruct(gamma, np.ascontiguousarray(opened.trits[:, : width - 1]))
        cells = self._profile.cell(opened.unit.astype(np.int64), index)
        rows = zip(self._frames.items(), cells.tolist(), index.tolist(), sign.tolist(), strict=True)
        return [
            Piece(device, number, REVOKED if device in self._revoked else HONEST, False, cell, place, face, 0, frame)
            for ((device, number), frame), cell, place, face in rows
        ]


def _key(frame: bytes) -> tuple[int, int]:
    return DEVICE.of(frame), NUMBER.of(frame)
