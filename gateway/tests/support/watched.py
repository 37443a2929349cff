# SPDX-License-Identifier: MIT
"""A lab of devices that report a temperature at intervals, and the queries of its store."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from lab import WIDTH, Lab

from peel_core import Profile, make_profile
from peel_core.projection import search_seed
from peel_gateway.fleet.claims import Claim
from peel_gateway.fleet.device import Device
from peel_gateway.fleet.directory import DeviceDirectory
from peel_gateway.queries.views import Views

DEVICES = 100
STEP = 300
"""Seconds between two reports of a device."""


def climate(epsilon: float) -> Profile:
    return make_profile(
        {
            "name": "climate",
            "epsilon": epsilon,
            "verify": False,
            "width": WIDTH,
            "seed": search_seed(WIDTH, 1)[0],
        }
        | {"quota": 86400 // STEP, "period": 86400}
        | {"attribute": [{"name": "temperature", "kind": "mean", "unit": "degC", "low": -10, "high": 50}]}
    )


CLIMATE = climate(1.0)


class Watched:
    """A lab whose clock is everybody's, and what answers questions about it."""

    def __init__(self, lab: Lab, monkeypatch: pytest.MonkeyPatch, *, tags: bool = False) -> None:
        self.lab = lab
        self.claims: dict[int, Claim] = {}
        devices = [
            Device(id=device, profile="climate", tags=("roof",) if tags and device <= 5 else (), created="2023-11-14")
            for device in lab.ids.tolist()
        ]
        snapshot: Any = SimpleNamespace(profiles=lab.profiles, devices=DeviceDirectory.of(devices), revoked=frozenset())
        self.views = Views(lab.store, lambda: snapshot, claims=self.claims.get)
        self._number = 0
        monkeypatch.setattr(time, "time", lambda: lab.now)

    def report(self, celsius: float, *, seconds: float, devices: int = DEVICES) -> None:
        """Let the first devices report for so long."""
        for _ in range(round(seconds / STEP)):
            self._number += 1
            frames = [
                frame
                for device in range(1, devices + 1)
                for frame in self.lab.frames(device, [self._number], (celsius - 20) / 30)
            ]
            self.lab.send(frames)
            self.lab.now += STEP
