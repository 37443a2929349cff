# SPDX-License-Identifier: MIT
"""Real applications in processes of this machine: their power, their flash, their place in the fleet."""

from __future__ import annotations

import shutil
from pathlib import Path

from peel_gateway.fleet.bundle import write_bundles
from peel_gateway.fleet.folder import Device, Fleet
from peel_research.soak.model import Model
from peel_tools.device.flash import Changes, Flash, read_bundle, read_outbox
from peel_tools.device.process import DeviceProcess
from peel_tools.flashing.device_files import Sources
from peel_tools.network import Endpoint
from peel_tools.simulation.publisher import BrokerAddress

__all__ = ["Bench", "SoakBoard"]

_INTERVAL_SECONDS = 0.2
_CALM_SECONDS = 3600.0
_OUTBOX_FRAMES = 5000


class Bench:
    """The shared parameters of the boards in a soak.

    Parameters
    ----------
    folder : Path
        The folder of their flashes.
    broker : Endpoint
        The address of the broker, or of a relay to it.
    seed : int
        The seed of their sensors' readings.
    confirm : str
        A device forgets a report once the `gateway` has confirmed it, or once the `broker` has acknowledged it.
    """

    def __init__(
        self,
        folder: Path,
        *,
        fleet: Fleet,
        profile: str,
        broker: Endpoint,
        model: Model,
        sources: Sources,
        seed: int,
        confirm: str,
    ) -> None:
        host, port = broker
        self.folder = folder
        self.fleet = fleet
        self.profile = profile
        self.model = model
        self._sources = sources
        self._template = {"outbox": _OUTBOX_FRAMES, "confirm": confirm}
        address = BrokerAddress(host=host, port=port)
        self._changes = Changes(broker=address, interval_s=_INTERVAL_SECONDS, simulate=seed)

    def install(self, device: Device, flash: Flash) -> None:
        """Write a fresh bundle for a device, and put it with the application onto a flash."""
        (path,) = write_bundles(self.fleet, [device], self._template)
        flash.install(read_bundle(path), self._sources, self._changes)

    def calm(self, flash: Flash) -> None:
        """Have the device on a flash make no more reports: its sensors fail from now on."""
        bundle = flash.bundle
        bundle["sensors"] = {name: {"kind": "trace", "values": [None]} for name in bundle["sensors"]}
        flash.install(bundle, self._sources, Changes(interval_s=_CALM_SECONDS))


class SoakBoard:
    """One place on the bench: a device at a time, off until `switch_on`."""

    def __init__(self, bench: Bench, place: int) -> None:
        self._bench = bench
        self._place = place
        self._enrol()

    def _enrol(self) -> None:
        (self.device,) = self._bench.fleet.add(self._bench.profile)
        self._flash = Flash(self._bench.folder / f"board{self._place}-{self.device.label}")
        self._bench.install(self.device, self._flash)
        self._process = DeviceProcess(self._flash)

    @property
    def pid(self) -> int | None:
        """The process id while it has power."""
        return self._process.pid

    @property
    def waiting(self) -> int:
        """Frames that it still has."""
        return len(read_outbox(self._flash.home))

    def switch_on(self) -> None:
        """Power."""
        self._process.start()

    def cut_power(self) -> list[bytes]:
        """No power; returns the frames that it has left, which the model has seen then."""
        self._process.kill()
        frames = list(read_outbox(self._flash.home).values())
        self._bench.model.found(frames)
        return frames

    def provision_again(self) -> None:
        """A fresh bundle on the same flash."""
        self.cut_power()
        self._bench.model.renew(self.device.id)
        self._bench.install(self.device, self._flash)

    def erase(self) -> None:
        """An empty flash, and a fresh bundle on it."""
        self._bench.model.excuse(self.cut_power())
        self._bench.model.renew(self.device.id)
        shutil.rmtree(self._flash.folder)
        self._bench.install(self.device, self._flash)

    def revoke(self) -> None:
        """Tell the gateway to refuse its reports from now on; it does not know, and goes on."""
        self._bench.fleet.revoke([self.device.id])
        self._bench.model.revoke(self.device.id)

    def replace(self) -> None:
        """Another device in its place, with a flash of its own."""
        self._bench.model.excuse(self.cut_power())
        self._bench.model.renew(self.device.id)
        self._enrol()

    def calm(self) -> None:
        """Start it once more, to send what it has rather than to report; a start also forgets how long it meant to wait."""
        self.cut_power()
        self._bench.calm(self._flash)
        self.switch_on()

    def log(self) -> str:
        """Return the output of its current device."""
        return self._process.log()
