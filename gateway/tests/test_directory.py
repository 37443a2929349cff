# SPDX-License-Identifier: MIT
"""DeviceDirectory, whose devices are columns, equals a plain list of devices after any changes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from peel_gateway.fleet.directory import DeviceDirectory
from peel_gateway.fleet.folder import ACTIVE, REVOKED, Device, IssuedBundle


def some_devices(rng: np.random.Generator, ids: list[int]) -> list[Device]:
    """Devices with up to three bundles each; many are alike."""
    return [
        Device(
            id=device,
            profile=("climate", "state")[rng.integers(2)],
            state=(ACTIVE, REVOKED)[rng.integers(2)],
            note=("", "by the door, ünïcode")[rng.integers(2)],
            tags=((), ("cellar",), ("Gewächshaus 2", "北棟"))[rng.integers(3)],
            created=f"2026-01-0{rng.integers(1, 9)}T00:00:00+00:00",
            bundles=tuple(
                IssuedBundle(
                    first_number=1 + 100 * place,
                    last_number=int(100 + 100 * place),
                    salt=rng.bytes(16),
                    made=f"2026-02-0{rng.integers(1, 9)}T00:00:00+00:00",
                    profile="climate",
                    profile_id="0000002a",
                    quota=int(rng.integers(1, 3)),
                    period=60,
                )
                for place in range(rng.integers(4))
            ),
        )
        for device in ids
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_roll_is_the_devices_it_was_made_of(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = (1 + rng.choice(1000, 60, replace=False)).tolist()
    known = {device.id: device for device in some_devices(rng, ids)}
    directory = DeviceDirectory.of(known.values())
    for _ in range(10):
        news = some_devices(rng, (1 + rng.choice(1000, 7, replace=False)).tolist())
        known |= {device.id: device for device in news}
        directory = directory.updated(DeviceDirectory.of(news))
        expected = [known[device] for device in sorted(known)]
        assert list(directory) == expected
        assert directory[-3:] == expected[-3:]
        assert list(DeviceDirectory.parse(json.loads(line) for line in directory.lines())) == expected
        assert set(directory.infos) == {
            (each.profile, each.state, each.note, each.tags, each.created) for each in expected
        }
        assert len(directory.infos) == len(set(directory.infos))
        assert [directory.has(device) for device in range(1002)] == [device in known for device in range(1002)]
        assert directory.rows([expected[5].id, 2000]).tolist() == [5, -1]


def test_an_empty_roll_knows_nobody() -> None:
    directory = DeviceDirectory.of([])
    assert (list(directory), directory.has(1), directory.rows([1]).tolist()) == ([], False, [-1])
    (device,) = some_devices(np.random.default_rng(1), [7])
    assert list(
        directory.updated(DeviceDirectory.of([device])).updated(DeviceDirectory.of([replace(device, note="moved")]))
    ) == [replace(device, note="moved")]


@pytest.mark.parametrize("seed", range(3))
def test_devices_that_are_alike_are_made_at_once(seed: int) -> None:
    (device,) = some_devices(np.random.default_rng(seed), [5])
    made = list(DeviceDirectory.alike([5, 7, 9], device))
    assert [unsalted(each) for each in made] == [replace(unsalted(device), id=each) for each in (5, 7, 9)]
    salts = [bundle.salt for each in made for bundle in each.bundles]
    assert len({bundle.salt for bundle in device.bundles} | set(salts)) == len(device.bundles) + len(salts)


def unsalted(device: Device) -> Device:
    return replace(device, bundles=tuple(replace(bundle, salt=bytes(16)) for bundle in device.bundles))
