# SPDX-License-Identifier: MIT
"""A simulated site in one process: boards with the real application, a registry, a forgetful broker, the gateway's engine.

The test sets the time. The simulated devices predict what must become of each report without asking the gateway.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from host_board import HostBoard
from peel_core import peelcore
from peel_core.frame import DEVICE, NUMBER, split
from peel_device.app import App
from peel_device.config import Config
from peel_device.interfaces import Source
from peel_device.link import FRAMES_PER_MESSAGE
from peel_gateway.engine.clock import Reading
from peel_gateway.engine.engine import Engine
from peel_gateway.engine.pardon import pardon
from peel_gateway.engine.replay import replay
from peel_gateway.fleet.bundle import write_bundles
from peel_gateway.fleet.directory import DeviceDirectory
from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.model.messages import Message
from peel_gateway.screening.state_cache import CACHE_BYTES
from peel_gateway.storage.sqlite.store import SqliteStore
from power_cut import ManualClock, MemoryFiles

PIECES = 1000
"""The most reports of one replay."""
START = 1_700_000_000.0
WIDTH = 48
PROFILE = """
name = "p{place}"
epsilon = 1.0
verify = false
width = 48
seed = 694411955
quota = {quota}
period = {period}
[[attribute]]
name = "temperature"
kind = "mean"
low = -10
high = 50
[[attribute]]
name = "soil"
kind = "mean"
low = 0
high = 1
"""
SENSORS = {"temperature": {"kind": "trace", "values": [20, 21.5]}, "soil": {"kind": "trace", "values": [0.5]}}


class SimulatedBoard(HostBoard):
    """A board whose clock and randomness the test provides."""

    def __init__(self, rng: np.random.Generator, at: int) -> None:
        super().__init__()
        self.clock = self.ticks = ManualClock()
        self.ticks.at = at
        self._rng = rng

    def sources(self) -> list[Source]:
        return [("scenario", self._rng.bytes, 64, 256)]


class SimulatedDevice:
    """A board with its flash, and the expected fate of each report that it made."""

    def __init__(self, device: int, pace: float, bundle: dict[str, Any], rng: np.random.Generator, now: float) -> None:
        self.id = device
        self.bundle = bundle
        self.files = MemoryFiles()
        self.made: set[int] = set()
        """Numbers of its reports, except those lost with an erased flash or for lack of room before delivery."""
        self.broken: set[int] = set()
        """Numbers of reports made with other odds than the profile's."""
        self.delivered: set[int] = set()
        """Numbers that reached a gateway while the device was not revoked."""
        self.refused: set[int] = set()
        """Numbers that reached a gateway while the device was revoked."""
        self.counted: set[int] = set()
        """Delivered numbers that count: the device was not exposed, and no pardon left them withdrawn."""
        self.exposed = False
        self._pace = pace
        self._rng = rng
        self.boot(now)

    def boot(self, now: float, *, honest: bool = True) -> None:
        """Boot with the present flash. A dishonest firmware has other odds than the profile's."""
        profile = self.bundle["profile"]
        if not honest:
            attributes = [each | {"keep": each["keep"] + 1} for each in profile["attributes"]]
            profile = profile | {"attributes": attributes}
        self._board = SimulatedBoard(self._rng, self._ticks(now))
        self.app = App(Config(self.bundle | {"profile": profile}), peelcore, self._board, self.files, "peel")
        self.app.start()
        self._honest = honest

    def erase(self) -> None:
        """Lose everything on flash."""
        self.made -= self.held - self.delivered
        self.files = MemoryFiles()

    @property
    def held(self) -> set[int]:
        """The numbers of the reports on its flash."""
        return set(self.app.outbox._numbers)

    def report(self, now: float) -> None:
        """Make a report, if the quota allows."""
        self._board.ticks.at = self._ticks(now)
        before = self.held
        self.app.report()
        new, dropped = self.held - before, before - self.held
        self.made = (self.made | new) - (dropped - self.delivered)
        if not self._honest:
            self.broken |= new

    def arrive(self, numbers: set[int]) -> None:
        """Record that the gateway has taken a batch with these reports."""
        new = numbers - self.delivered
        self.delivered |= new
        self.exposed |= bool(new & self.broken)
        if not self.exposed:
            self.counted |= new

    def publish(self) -> Iterator[bytes]:
        """Yield messages with the waiting frames, oldest first, and treat each as acknowledged."""
        outbox = self.app.outbox
        while frames := outbox.unsent(FRAMES_PER_MESSAGE):
            outbox.sent([number for number, _ in frames])
            yield b"".join(frame for _, frame in frames)

    def _ticks(self, now: float) -> int:
        return int((now - START) * 1000 * self._pace)


@dataclass
class Site:
    """The whole site. Tests decide what happens."""

    folder: Path
    rates: Sequence[tuple[int, int]]
    """Quota and period of the profiles p0, p1, ..."""
    rng: np.random.Generator
    outbox: int = 200
    now: float = START
    skew: float = 0.0
    """The error of the gateway's wall clock in seconds; the registry's clock is right."""
    devices: dict[int, SimulatedDevice] = field(default_factory=dict)
    queue: list[bytes] = field(default_factory=list)
    """Messages that the broker holds for the gateway."""
    receipts: dict[int, list[bytes]] = field(default_factory=dict)
    """All receipts ever sent to each device."""
    cache_bytes: int = CACHE_BYTES
    """Bytes that the engine may use for its cache of device states."""
    pruned: int = 0
    """Reports that retention has dropped."""
    _boot: int = 1

    def __post_init__(self) -> None:
        paths = [self.folder / f"p{place}.toml" for place in range(len(self.rates))]
        for place, (quota, period) in enumerate(self.rates):
            paths[place].write_text(PROFILE.format(place=place, quota=quota, period=period))
        Fleet.create(self.folder / "fleet", "lab", paths)
        self.fleet = Fleet(self.folder / "fleet", clock=lambda: datetime.fromtimestamp(self.now, UTC))
        self.store = SqliteStore(self.folder / "gateway.sqlite")
        self._start_engine()
        self.engine.process([])  # the gateway is installed while its clock is right

    # ---- the gateway ----

    def clock(self) -> Reading:
        """Return the readings of the gateway machine's clocks."""
        return Reading(round((self.now + self.skew) * 1000), self._boot, round(self.now * 1000))

    def restart(self) -> None:
        """Restart the gateway from the stored database."""
        self.store.close()
        self.store = SqliteStore(self.folder / "gateway.sqlite")
        self._start_engine()

    def reboot(self, off: float, skew: float) -> None:
        """Switch the gateway's machine off for some seconds, and on again with its wall clock off by `skew`."""
        self.now += off
        self.skew = skew
        self._boot += 1
        self.restart()

    def _start_engine(self) -> None:
        self.engine = Engine(self.store, clock=self.clock, cache_bytes=self.cache_bytes)
        self.reload()

    def reload(self) -> None:
        """Let the gateway read the fleet folder."""
        self.registry = take_snapshot(self.fleet)
        self.engine.load(self.registry)

    def take(self, messages: Sequence[bytes]) -> None:
        """Process a batch, and send receipts to the devices heard in it."""
        received = max(0.0, self.now + self.skew)
        senders = self.engine.process([Message("t", message, received) for message in messages]).senders
        for device, receipt in self.engine.receipts(senders) or []:
            self.receipts.setdefault(device, []).append(receipt)
        came: dict[int, set[int]] = {}
        for frame in [frame for message in messages for frame in split(message, WIDTH)]:
            came.setdefault(DEVICE.of(frame), set()).add(NUMBER.of(frame))
        for device, numbers in came.items():
            if device in self.registry.revoked:
                self.devices[device].refused |= numbers
            else:
                self.devices[device].arrive(numbers)

    def replay(self) -> None:
        """Screen the refused reports again, in one batch."""
        if sum(len(device.refused) for device in self.devices.values()) > PIECES:
            return
        replay(self.store, self.engine)
        for device in self.devices.values():
            if device.id not in self.registry.revoked:
                device.arrive(device.refused)
                device.refused = set()

    def pardon(self, device: SimulatedDevice, *, restore: bool) -> None:
        """Let the operator pardon an exposed device."""
        pardon(self.store, [device.id], restore=restore, reason="any", who="scenario", clock=self.clock)
        device.exposed = False
        if not restore:
            device.counted.clear()

    def prune(self, age_seconds: float) -> None:
        """Drop older reports, unless the clock is doubtful."""
        self.pruned += self.engine.prune(age_seconds) or 0

    # ---- devices ----

    def enrol(self, profile: str, pace: float = 1.0) -> SimulatedDevice:
        """Enrol a device whose clock runs at the given pace."""
        (enrolled,) = self.fleet.add(profile)
        device = SimulatedDevice(enrolled.id, pace, self.issue(enrolled.id), self.rng, self.now)
        self.devices[device.id] = device
        return device

    def provision(self, device: SimulatedDevice, *, profile: str | None = None, erase: bool = False) -> None:
        """Install a fresh bundle, optionally of another profile, on the present flash or an empty one."""
        if profile is not None:
            with self.fleet._changing() as register:  # as an operator's editor does
                changed = replace(self.fleet.device(device.id), profile=profile)
                register.devices = register.devices.updated(DeviceDirectory.of([changed]))
        device.bundle = self.issue(device.id)
        if erase:
            device.erase()
        device.boot(self.now)

    def issue(self, device: int) -> dict[str, Any]:
        """Make a further bundle. The gateway learns of it at once."""
        template = {"sensors": SENSORS, "outbox": self.outbox, "interval_s": 0}
        (path,) = write_bundles(self.fleet, [self.fleet.device(device)], template)
        self.reload()
        made: dict[str, Any] = json.loads(path.read_text())
        return made
