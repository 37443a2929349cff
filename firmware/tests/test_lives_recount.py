# SPDX-License-Identifier: MIT
"""Devices that leap ahead, and operators who provision and pardon them meanwhile: a recount finds nothing wrong with what was settled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from lives import Life, Site

from peel_core import encode_many
from peel_core.primitives import NUMBER_MAX
from peel_gateway.engine.recount import recount
from peel_gateway.model.message import Message


def send(site: Site, life: Life, numbers: Sequence[int]) -> None:
    """Reports under these numbers, with the keys that they have now."""
    keyring, chosen = site.registry.keyring, np.array(numbers, np.int64)
    devices = np.full(len(chosen), life.id)
    bundle = keyring.find(devices, chosen)
    profile = keyring.profiles[int(keyring.bundle_profile[bundle[0]])]
    readings = np.zeros((len(chosen), profile.readings), np.int32)
    frames = encode_many(profile, devices, keyring.keys.of(bundle), chosen, readings, entropy=site.chance.bytes(64))
    site.engine.process([Message("t", frames.tobytes(), site.now)])


def differences(site: Site) -> list[object]:
    found: list[object] = [*recount(site.store, site.registry).differences]
    site.store.close()
    return found


def test_numbers_that_a_further_bundle_is_given_had_the_keys_of_the_former_one(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    """A device may begin anywhere: far above where its next bundle will begin, for one. What its missing numbers assigned stays."""
    site = Site(tmp_path, [(96, 86_400)], rng)
    life = site.enrol("p0")
    send(site, life, [10**9])
    send(site, life, [10**9 + 64])
    assert len(site.store.gaps()) > 40
    site.issue(life.id)
    assert site.registry.keyring.bundle_first[-1] < 10**9
    assert differences(site) == []


def test_nothing_is_due_below_where_a_pardoned_device_began(tmp_path: Path, rng: np.random.Generator) -> None:
    """With the last of all numbers, for one: its bucket then counts from below."""
    site = Site(tmp_path, [(96, 86_400), (8, 3600)], rng)
    life = site.enrol("p0")
    while not len(site.store.devices()) or not site.store.devices().cause[0]:
        send(site, life, [100])  # until the coin falls the other way: one number, two bodies
    site.pardon(life, restore=True)
    site.provision(life, profile="p1")
    send(site, life, [NUMBER_MAX])
    site.provision(life, profile="p1")
    state = site.store.devices()
    assert (state.cause[0], state.last_number[0]) == (0, NUMBER_MAX)
    assert differences(site) == []
