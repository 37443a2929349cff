# SPDX-License-Identifier: MIT
"""A site whose devices are boards: enrol devices, and read what the gateway has of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peel_core import Profile
from peel_gateway.fleet.bundle import make_bundles
from peel_gateway.fleet.folder import Fleet
from peel_gateway.model.exposure import Exposure
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import read_log
from peel_tools.servers.broker import Broker
from peel_tools.servers.gateway import Site

__all__ = ["TRACES", "BoardSite", "climate"]

_FLEET = "lab"
_ALL = 1 << 40
_SETTINGS = {"batch_seconds": 0.02, "fleet_reload_seconds": 0.2, "mqtt_receipt_seconds": 0.2}

_CLIMATE = """\
name = "climate"
epsilon = {epsilon}
verify = false
width = 48
seed = 1
quota = {quota}
period = {period}

[[attribute]]
kind = "mean"
name = "temperature"
unit = "degC"
low = -10
high = 50

[[attribute]]
kind = "mean"
name = "humidity"
unit = "%"
low = 0
high = 100
"""

TRACES = {"temperature": [18.0, 24.0, 21.0], "humidity": [40.0, 65.0]}
"""Readings for devices whose readings do not matter."""


def climate(*, epsilon: float, quota: int, period: int) -> str:
    """Return the text of a profile with the means of temperature and humidity.

    Parameters
    ----------
    quota, period : int
        Report numbers per so many seconds. With a long period a device makes a known number of reports and then rests; see
        `BoardSite.at_once`.
    """
    return _CLIMATE.format(epsilon=epsilon, quota=quota, period=period)


class BoardSite(Site):
    """A site whose devices are boards that all have one profile, given as TOML text. `settings` are the gateway's."""

    def __init__(self, folder: Path, profile: str, **settings: object) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        toml = folder / "profile.toml"
        toml.write_text(profile)
        fleet = Fleet.create(folder / "fleet", _FLEET, [toml])
        broker_folder = folder / "broker"
        broker_folder.mkdir()
        super().__init__(folder, fleet, Broker(folder=broker_folder, persistent=True, embedded=False))
        self.add_gateway(settings={**_SETTINGS, **settings})

    @property
    def at_once(self) -> int:
        """The number of reports that a new device makes before it has to wait: a burst, less what a block may leave."""
        burst = self.profile.burst
        return burst + 1 - min(32, (burst + 1) // 2)

    @property
    def profile(self) -> Profile:
        """The profile of the site's devices."""
        (only,) = self.fleet.profiles().values()
        return only

    def enrol(self, traces: Mapping[str, Sequence[float]], **settings: object) -> dict[str, Any]:
        """Register a device that plays traces, and wait until the gateway knows it. Return its bundle."""
        sensors = {name: {"kind": "trace", "values": list(values)} for name, values in traces.items()}
        return self.enrol_with(sensors, **settings)

    def enrol_with(self, sensors: Mapping[str, Mapping[str, Any]], **settings: object) -> dict[str, Any]:
        """Register a device with these sensors and a UART, and wait until the gateway knows it. Return its bundle."""
        # Not used: the link is where the board's UART leads.
        mqtt = {"host": self.broker.host, "port": self.broker.port}
        (device,) = self.fleet.enrol(self.profile.name)
        template = {"transport": "uart", "mqtt": mqtt, "sensors": dict(sensors), **settings}
        (bundle,) = make_bundles(self.fleet, [device], template)
        self.wait(
            lambda: len((self.gateway.ask("/api/devices") or {"items": []})["items"]) >= device.id, "the registry"
        )
        return bundle

    def accepted(self, device: str) -> list[int]:
        """Return the accepted numbers of a device (its label), ascending."""
        with self.gateway.store() as store:
            log = read_log(store, int(device, 16))
        numbers: list[int] = log.number[log.verdict == Verdict.ACCEPTED].tolist()
        return numbers

    def exposures(self) -> list[Exposure]:
        """Return everything that was refused, in order."""
        with self.gateway.store() as store:
            return store.exposures(limit=_ALL, after=0)

    def device_cause(self, device: str) -> str | None:
        """Return why a device was exposed; None if it was not."""
        with self.gateway.store() as store:
            known = store.devices()
        (cause,) = known.cause[known.device == int(device, 16)].tolist() or [0]
        return Verdict(cause).label if cause else None
