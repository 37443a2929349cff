# SPDX-License-Identifier: MIT
"""Devices that were provisioned again: each bundle has keys of its own, and a report's number says which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab import Lab, MakeLab, Makers

from peel_core import Keyring, Keys, encode_many, index_many
from peel_core.frame import FLAG_UNSEALED
from peel_gateway.engine.recount import recount
from peel_gateway.fleet.bundle import write_bundles
from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import read_gaps, read_log

NEW = 1000
"""The first report number of the second bundle."""


@pytest.fixture
def renewed(make_lab: MakeLab) -> Lab:
    """Device 1 has sent a hundred reports, and then was given a fresh bundle."""
    lab = make_lab()
    assert lab.send(lab.frames(1, range(1, 101))) == {"accepted": 100}
    lab.provision(1, NEW)
    return lab


@pytest.mark.parametrize("numbers", [[NEW], range(NEW, NEW + 50), [NEW + 50_000]], ids=["first", "many", "far ahead"])
def test_an_old_copy_cannot_speak_with_new_numbers_nor_get_its_device_blamed(renewed: Lab, numbers: list[int]) -> None:
    stolen = renewed.frames(1, numbers, bundle=1)
    assert renewed.send(stolen) == {"seal": len(stolen)}
    assert renewed.send(renewed.frames(1, range(NEW, NEW + 100))) == {"accepted": 100}, "the device itself"
    assert renewed.store.devices().cause.tolist() == [0]
    assert recount(renewed.store, renewed).agrees


def test_an_old_copy_cannot_use_a_new_number_for_another_body(renewed: Lab) -> None:
    assert renewed.send(renewed.frames(1, [NEW])) == {"accepted": 1}
    assert renewed.send(renewed.frames(1, [NEW], bundle=1)) == {"seal": 1}, "not reused, which would blame the device"


def test_the_new_keys_are_none_for_old_numbers(renewed: Lab) -> None:
    assert renewed.send(renewed.frames(1, [NEW - 1], bundle=NEW)) == {"seal": 1}


@pytest.mark.parametrize("order", ["old first", "new first", "mixed", "reversed"])
def test_overlapping_deliveries_all_count(make_lab: MakeLab, rng: np.random.Generator, order: str) -> None:
    lab = make_lab()
    old = lab.frames(1, range(1, 301))
    lab.provision(1, NEW)
    new = lab.frames(1, range(NEW, NEW + 300))
    frames = {"old first": old + new, "new first": new + old, "mixed": old + new, "reversed": (old + new)[::-1]}[order]
    if order == "mixed":
        rng.shuffle(frames)
    for start in range(0, 600, 40):
        assert lab.send(frames[start : start + 40]) == {"accepted": 40}
    assert lab.send(frames) == {"redelivered": 600}
    assert recount(lab.store, lab).agrees
    lab.reopen()
    assert lab.send(lab.frames(1, [NEW + 300])) == {"accepted": 1}


def test_what_a_missing_number_assigns_is_for_its_own_bundle_to_say(renewed: Lab) -> None:
    sent = [*range(120, 200, 2), *range(NEW, NEW + 200, 2)]
    assert renewed.send(renewed.frames(1, sent)) == {"accepted": len(sent)}
    held = read_gaps(renewed.store)
    old = held.number < NEW
    assert old.any()
    assert (~old).any()
    for mine, bundle in ((old, 1), (~old, NEW)):
        keys = renewed.keys_of(1, np.full(mine.sum(), bundle))
        assigned = index_many(renewed.profiles[0], np.ones(mine.sum()), keys, held.number[mine])
        assert np.array_equal(held.index[mine], assigned)
    assert recount(renewed.store, renewed).agrees


def test_late_reports_of_the_former_profile_count_for_it(make_lab: MakeLab, profiles: Makers) -> None:
    """A device changes from Harmony to kRR, and its outbox still holds reports of before."""
    lab = make_lab(profiles[0](4), profiles[1](3), devices=2)
    old = lab.frames(1, range(1, 201))
    assert lab.send(old[:100]) == {"accepted": 100}
    lab.provision(1, NEW, profile=1)
    assert lab.send(lab.frames(1, range(NEW, NEW + 50), reading=1) + old[100:]) == {"accepted": 150}
    log = read_log(lab.store, 1)
    assert np.count_nonzero(log.profile == lab.profiles[0].id) == 200
    assert np.count_nonzero(log.profile == lab.profiles[1].id) == 50
    assert lab.send(lab.frames(1, [NEW + 60], bundle=1)) == {"profile": 1}, "an old copy, with the old profile"
    assert recount(lab.store, lab).agrees
    lab.reopen()
    assert lab.send(lab.frames(1, [201])) == {"accepted": 1}
    assert recount(lab.store, lab).agrees


def test_a_biased_coin_under_the_former_profile_is_still_exposed(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](4), profiles[1](3), devices=2)
    assert lab.send(lab.frames(1, [1])) == {"accepted": 1}
    lab.provision(1, NEW, profile=1)
    assert lab.send([lab.sealed(1, number, minus=0) for number in range(2, 402)])["statistics"] > 0
    assert lab.store.devices().cause.tolist() == [Verdict.STATISTICS]


def test_a_number_below_the_first_bundle_is_no_devices(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](4))
    early = lab.frames(1, [NEW - 1])
    lab.keyring = Keyring(lab.profiles, [1], NEW, [0], lab.keys_of(1, [1]))
    lab.engine = lab.make_engine(accept_unsealed=True)
    unsealed = lab.frames(1, [NEW - 2], flags=FLAG_UNSEALED)
    assert lab.send([*early, *unsealed, *lab.frames(1, [NEW])]) == {"device": 2, "accepted": 1}


PROFILE = """
name = "climate"
epsilon = 1.0
verify = false
seed = 7
quota = 96
period = 86400
[[attribute]]
kind = "mean"
name = "temperature"
low = -10
high = 50
"""


def test_a_fresh_bundle_of_a_fleet_locks_the_old_one_out(make_lab: MakeLab, tmp_path: Path) -> None:
    """From the files: what `peel fleet bundle` writes, and what the gateway reads."""
    (tmp_path / "climate.toml").write_text(PROFILE)
    fleet = Fleet.create(tmp_path / "fleet", "greenhouse", [tmp_path / "climate.toml"])
    profile = fleet.profiles()["climate"]
    devices = fleet.add("climate")
    stolen = json.loads(write_bundles(fleet, devices, {})[0].read_text())
    fresh = json.loads(write_bundles(fleet, devices, {})[0].read_text())
    new = fresh["first_number"]
    lab = make_lab(profile)
    lab.engine.load(take_snapshot(fleet))

    def frame(bundle: dict[str, Any], number: int) -> bytes:
        names = ("seal", "index", "receipt", "receipt")  # no coin key: a report does not need it
        keys = (np.frombuffer(bytes.fromhex(bundle[f"{name}_key"]), np.uint8) for name in names)
        own = Keys(*(key.reshape(1, -1) for key in keys))
        return encode_many(profile, [1], own, [number], np.zeros((1, 1), np.int32), entropy=bytes(range(32))).tobytes()

    assert lab.send([frame(stolen, new), frame(stolen, new + 1)]) == {"seal": 2}
    assert lab.send([frame(stolen, new - 1), frame(stolen, 5000)]) == {"device": 2}, (
        "its device cannot have come so far"
    )
    assert lab.send([frame(fresh, new), frame(stolen, 1)]) == {"accepted": 2}
    assert lab.store.devices().cause.tolist() == [0]
