# SPDX-License-Identifier: MIT
"""Devices that jump ahead while operators provision and pardon them: a recount agrees with every judgement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from simulation import SimulatedDevice, Site

from peel_core import encode_many
from peel_core.primitives import NUMBER_MAX
from peel_gateway.engine.recount import recount
from peel_gateway.model.messages import Message
from peel_gateway.storage.records import read_gaps


def send(site: Site, device: SimulatedDevice, numbers: Sequence[int]) -> None:
    """Send reports under these numbers, with the keys that they have now."""
    keyring, chosen = site.registry.keyring, np.array(numbers, np.int64)
    devices = np.full(len(chosen), device.id)
    bundle = keyring.find(devices, chosen)
    profile = keyring.profiles[int(keyring.bundle_profile[bundle[0]])]
    readings = np.zeros((len(chosen), len(profile.questions)), np.int32)
    frames = encode_many(profile, devices, keyring.keys.of(bundle), chosen, readings, entropy=site.rng.bytes(64))
    site.engine.process([Message("t", frames.tobytes(), site.now)])


def differences(site: Site) -> list[object]:
    found: list[object] = [*recount(site.store, site.registry).differences]
    site.store.close()
    return found


def test_numbers_that_a_further_bundle_is_given_had_the_keys_of_the_former_one(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    """A device may begin anywhere, for example far above its next bundle's first number. Its missing numbers keep their keys."""
    site = Site(tmp_path, [(96, 86_400)], rng)
    device = site.enrol("p0")
    send(site, device, [10**9])
    send(site, device, [10**9 + 64])
    assert len(read_gaps(site.store)) > 40
    site.issue(device.id)
    assert site.registry.keyring.bundle_first[-1] < 10**9
    assert differences(site) == []


def test_nothing_is_due_below_where_a_pardoned_device_began(tmp_path: Path, rng: np.random.Generator) -> None:
    """For example with the highest possible number: its bucket then counts from below."""
    site = Site(tmp_path, [(96, 86_400), (8, 3600)], rng)
    device = site.enrol("p0")
    while not len(site.store.devices()) or not site.store.devices().cause[0]:
        send(site, device, [100])  # until the coin falls the other way: two different frames with one number
    site.pardon(device, restore=True)
    site.provision(device, profile="p1")
    send(site, device, [NUMBER_MAX])
    site.provision(device, profile="p1")
    state = site.store.devices()
    assert (state.cause[0], state.last_number[0]) == (0, NUMBER_MAX)
    assert differences(site) == []
