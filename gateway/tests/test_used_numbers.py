# SPDX-License-Identifier: MIT
"""The record of used numbers: any order, any loss, bounded memory, and duplicates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab import Lab, MakeLab, Makers

from peel_gateway.engine.recount import recount
from peel_gateway.model.tables import Positions
from peel_gateway.screening import numbers as numbers_module
from peel_gateway.screening import state_cache
from peel_gateway.screening.layers import RecentReports
from peel_gateway.screening.numbers import UsedNumbers, enter, holes_of, unseen


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def nobody(devices: int) -> UsedNumbers:
    none = np.zeros(devices, np.int64)
    return UsedNumbers(none, none, np.full(devices, b"", object), none)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 60)), max_size=40), max_size=6), st.integers(1, 6))
def test_used_numbers_are_a_set_in_any_order(batches: list[list[tuple[int, int]]], most: int) -> None:
    """Against plain sets: what may still come is what was neither used nor given up, and no more holes are kept than asked for."""
    seen = nobody(3)
    used: list[set[int]] = [set(), set(), set()]
    for batch in batches:
        rows = np.array(sorted(set(batch)), np.int64).reshape(-1, 2)
        fresh = unseen(seen, Positions(rows[:, 0]), rows[:, 1])
        for device, number, new in zip(*rows.T.tolist(), fresh.tolist(), strict=True):
            assert new == (number not in used[device] and number > seen.low_water[device])
        at, number = rows[fresh].T
        seen = enter(seen, Positions(at), number, most_holes=most)
        for device, entered in rows[fresh].tolist():
            used[device].add(entered)
    for device, numbers in enumerate(used):
        low, last = int(seen.low_water[device]), int(seen.last_number[device])
        holes = holes_of(seen.holes[device])
        assert last == max(numbers, default=0) and len(holes) <= most
        inside = [number for first, end in holes.tolist() for number in range(first, end + 1)]
        assert inside == sorted(set(range(low + 1, last + 1)) - numbers)
        assert seen.forgone[device] == len(set(range(1, low + 1)) - numbers)


def test_a_device_that_simply_goes_on_has_no_holes() -> None:
    seen = nobody(2)
    for start in range(1, 1000, 10):
        numbers = np.arange(start, start + 10)
        seen = enter(seen, Positions(np.repeat([0, 1], 10)), np.tile(numbers, 2))
    assert seen.holes.tolist() == [b"", b""] and seen.last_number.tolist() == [1000, 1000]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), unique=True), st.integers(1, 12))
def test_the_last_bodies_are_remembered_and_no_others(reports: list[tuple[int, int]], room: int) -> None:
    recent = RecentReports(room)
    for device, number in reports:
        recent.note(ints(device), ints(number), ints(10 * device + number))
    asked = [(device, number) for device in range(1, 5) for number in range(1, 10)]
    known, body = recent.find(*np.array(asked, np.int64).T)
    kept = set(reports[-room:])
    assert known.tolist() == [each in kept for each in asked]
    assert body.tolist() == [10 * each[0] + each[1] if each in kept else 0 for each in asked]


def test_more_at_once_than_there_is_room_for() -> None:
    recent = RecentReports(4)
    recent.note(ints(1, 1, 1, 1, 1, 1), ints(1, 2, 3, 4, 5, 6), ints(1, 2, 3, 4, 5, 6))
    recent.note(ints(2), ints(1), ints(7))
    known, body = recent.find(ints(1, 1, 1, 1, 1, 1, 2), ints(1, 2, 3, 4, 5, 6, 1))
    assert body.tolist() == [0, 0, 0, 4, 5, 6, 7] and known.sum() == 4


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch, make_lab: MakeLab) -> Lab:
    """A gateway that remembers twenty bodies."""
    monkeypatch.setattr(state_cache, "WINDOW", 20)
    return make_lab()


def test_a_number_used_again_after_the_window_counts_once_and_blames_nobody(forgetful: Lab) -> None:
    """An insider reuses old numbers with other bodies, and the network replays; neither gains anything, before or after a restart."""
    lab = forgetful
    old = [lab.sealed(1, number, minus=0) for number in range(1, 11)]
    assert lab.send(old) == {"accepted": 10}
    assert lab.send(lab.frames(2, range(1, 31))) == {"accepted": 30}
    counted = lab.estimates()
    assert lab.send([lab.sealed(1, number, minus=1) for number in range(1, 11)]) == {"stale": 10}
    assert lab.send(old) == {"stale": 10}
    lab.reopen()
    assert lab.send([*old, *old]) == {"redelivered": 20}  # held in quarantine already, under these bytes
    assert lab.estimates() == counted
    assert lab.store.devices().cause.tolist() == [0, 0]
    assert recount(lab.store, lab).agrees


def test_a_busy_device_gets_no_other_device_blamed(forgetful: Lab) -> None:
    """Device 2 pushes device 1's bodies out; device 1 sends again what it has no receipt for, and goes on."""
    lab = forgetful
    mine = lab.frames(1, range(1, 6))
    assert lab.send(mine) == {"accepted": 5}
    assert lab.send(mine) == {"redelivered": 5}
    for start in range(1, 41, 10):
        lab.send(lab.frames(2, range(start, start + 10)))
    assert lab.send(mine + lab.frames(1, range(6, 9))) == {"stale": 5, "accepted": 3}
    assert not any(exposure.blamed for exposure in lab.store.exposures())
    assert recount(lab.store, lab).agrees


def test_a_restart_remembers_the_same_bodies(lab: Lab) -> None:
    first, second = lab.sealed(1, 7, minus=0), lab.sealed(1, 7, minus=1)
    assert lab.send([first]) == {"accepted": 1}
    lab.reopen()
    assert lab.send([first]) == {"redelivered": 1}
    assert lab.send([second]) == {"reused": 1}


def test_losses_of_any_kind_can_be_made_good(make_lab: MakeLab, profiles: Makers) -> None:
    """Every second report is lost and sent again days later, as many as a device can hold: all of them count, once."""
    lab = make_lab(profiles[0](4))
    assert lab.send(lab.frames(1, range(2, 2049, 2))) == {"accepted": 1024}
    lab.now += 3 * 86400
    lab.reopen()
    late = lab.frames(1, range(1, 2048, 2))
    assert lab.send(late) == {"accepted": 1024}
    assert lab.send(late) == {"redelivered": 1024}
    assert lab.store.devices().holes.tolist() == [b""]
    assert recount(lab.store, lab).agrees


def test_holes_beyond_the_limit_are_given_up_from_below(monkeypatch: pytest.MonkeyPatch, lab: Lab) -> None:
    """A device that leaves holes on purpose costs bounded room, and is refused what it gave up without blame."""
    monkeypatch.setattr(numbers_module.enter, "__defaults__", (8,))
    assert lab.send(lab.frames(1, range(2, 61, 2))) == {"accepted": 30}
    devices = lab.store.devices()
    assert len(holes_of(devices.holes[0])) == 8
    assert (devices.low_water[0], devices.forgone[0]) == (43, 22)
    assert lab.send(lab.frames(1, [1, 43, 45])) == {"stale": 2, "accepted": 1}
    assert not any(exposure.blamed for exposure in lab.store.exposures())
    assert recount(lab.store, lab).agrees
