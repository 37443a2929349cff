# SPDX-License-Identifier: MIT
"""A silent device whose state was dropped from memory is judged exactly as if it had stayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from lab import Lab, MakeLab, Makers

from peel_gateway.engine.pardon import pardon
from peel_gateway.engine.recount import recount
from peel_gateway.model.messages import Senders
from peel_gateway.model.tables import Slots

DEVICES = 12
ROOMS = [1, 9_000]
"""Bytes: room for the state of one device, and for a few."""


@pytest.fixture
def labs(make_lab: MakeLab, profiles: Makers) -> tuple[Lab, Lab]:
    """Two gateways that hear the same devices, of two profiles."""
    first, second = (make_lab(profiles[0](4), profiles[1](3), devices=DEVICES) for _ in range(2))
    return first, second


def stories(lab: Lab, rng: np.random.Generator) -> Iterator[Sequence[bytes]]:
    """Batches in which few devices speak at a time: honest ones, with losses and latecomers; one cheats by its coin, one by its rule."""
    late: list[bytes] = []
    for step in range(24):
        numbers = list(range(1 + 20 * step, 21 + 20 * step))
        batch: list[bytes] = []
        for device in rng.choice(np.arange(3, DEVICES + 1), 3, replace=False).tolist():
            lost = rng.random(len(numbers)) < 0.3
            frames = lab.frames(device, numbers, reading=1)
            batch += [frame for frame, gone in zip(frames, lost, strict=True) if not gone]
            late += [frame for frame, gone in zip(frames, lost, strict=True) if gone]
        if step % 3 == 0:
            batch += [lab.sealed(1, number) for number in numbers]
        if step == 18:
            batch += lab.frames(2, numbers[:3]) + lab.frames(2, [numbers[4]], odds=(7, 1))
        if step % 5 == 4:
            batch += late
            late = []
        yield batch + batch[:5]


@pytest.mark.parametrize("room", ROOMS)
def test_a_device_dropped_from_memory_is_judged_as_if_it_had_stayed(
    labs: tuple[Lab, Lab], rng: np.random.Generator, room: int
) -> None:
    roomy, tight = labs
    tight.engine = tight.make_engine(cache_bytes=room)
    for step, batch in enumerate(stories(roomy, rng)):
        assert tight.send(batch) == roomy.send(batch), step
        for lab in labs:
            lab.now += 60
        if step == 14:
            for lab in labs:
                pardon(lab.store, [1], restore=True, reason="repaired", who="me", clock=lab.clock)
        if step % 7 == 6:
            tight.engine = tight.make_engine(cache_bytes=room)
            tight.send([])
    assert len(tight.cache.absent(Slots(np.arange(DEVICES)))) > 0, "all are in memory: nothing was tested"
    assert tight.known() == roomy.known()
    for lab in labs:
        assert recount(lab.store, lab).agrees
        assert lab.store.counts().exposed_devices >= 1
    exposed = [[(each.device, each.verdict, dict(each.evidence)) for each in lab.store.exposures()] for lab in labs]
    assert exposed[0] == exposed[1]


def test_a_receipt_tells_of_devices_that_were_given_up(labs: tuple[Lab, Lab]) -> None:
    roomy, tight = labs
    tight.engine = tight.make_engine(cache_bytes=1)
    numbers = [1, 2, 5]
    for device in range(1, DEVICES + 1):
        frames = roomy.frames(device, numbers)
        tight.send(frames)
        roomy.send(frames)
    assert tight.cache.row_cache.taken == 0
    ids = np.arange(1, DEVICES + 1)
    senders = Senders.of(ids, np.ones(DEVICES, np.int64))
    assert tight.engine.receipts(senders) == roomy.engine.receipts(senders)


def test_forgeries_bring_nobody_into_memory(lab: Lab) -> None:
    """An attacker without keys can name every device of a fleet, and must not fill the memory with them."""
    for device in (1, 2, 3):
        (frame,) = lab.frames(device, [1])
        assert lab.send([frame[:-1] + bytes([frame[-1] ^ 1])]) == {"seal": 1}
    assert lab.cache.row_cache.taken == 0
    lab.send(lab.frames(1, [1]))
    assert lab.cache.row_cache.taken == 1
