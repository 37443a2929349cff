# SPDX-License-Identifier: MIT
"""A site in one process: boards with the real application, a registry, a broker that forgets, and the gateway's engine on a database.

Time is what a story says it is. What must become of each report is known from the boards' side alone.
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
from peel_gateway.fleet.registry import Fleet
from peel_gateway.fleet.roll import Roll
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.model.message import Message
from peel_gateway.screening.book import ROOM
from peel_gateway.storage.sqlite.store import SqliteStore
from power_cut import ManualClock, MemoryFiles

PIECES = 1000
"""That a replay takes at once."""
START = 1_700_000_000.0
WIDTH = 48
PROFILE = """
name = "p{place}"
mechanism = "harmony"
epsilon = 1.0
width = 48
seed = 694411955
quota = {quota}
period = {period}
[[attribute]]
name = "temperature"
low = -10
high = 50
[[attribute]]
name = "soil"
low = 0
high = 1
"""
SENSORS = {"temperature": {"kind": "trace", "values": [20, 21.5]}, "soil": {"kind": "trace", "values": [0.5]}}


class StoryBoard(HostBoard):
    """A board whose clock and randomness are the story's."""

    def __init__(self, chance: np.random.Generator, at: int) -> None:
        super().__init__()
        self.clock = self.hands = ManualClock()
        self.hands.at = at
        self._chance = chance

    def sources(self) -> list[Source]:
        return [("story", self._chance.bytes, 64, 256)]


class Life:
    """A board with its flash, and what its side knows of the reports that it made."""

    def __init__(
        self, device: int, pace: float, bundle: dict[str, Any], chance: np.random.Generator, now: float
    ) -> None:
        self.id = device
        self.bundle = bundle
        self.files = MemoryFiles()
        self.made: set[int] = set()
        """Numbers of its reports; not of those that went with an erased flash, or for want of room, before they were delivered."""
        self.broken: set[int] = set()
        """Of those, what was tossed with another budget than the profile's."""
        self.delivered: set[int] = set()
        """To a gateway that does not refuse the device."""
        self.refused: set[int] = set()
        """While the device was revoked."""
        self.counted: set[int] = set()
        """Of these, what came while the device was not exposed, and no pardon has left withdrawn."""
        self.exposed = False
        self._pace = pace
        self._chance = chance
        self.boot(now)

    def boot(self, now: float, *, budget_off: int = 0) -> None:
        """Power again, with the flash as it is; with another budget its firmware is not ours."""
        profile = self.bundle["profile"]
        profile = profile | {"epsilon_q20": profile["epsilon_q20"] - budget_off}
        self._board = StoryBoard(self._chance, self._hands(now))
        self.app = App(Config(self.bundle | {"profile": profile}), peelcore, self._board, self.files, "peel")
        self.app.start()
        self._honest = not budget_off

    def erase(self) -> None:
        """What is on flash is gone, and nobody's fault."""
        self.made -= self.held - self.delivered
        self.files = MemoryFiles()

    @property
    def held(self) -> set[int]:
        """Numbers of the reports on its flash."""
        return set(self.app.outbox._numbers)

    def report(self, now: float) -> None:
        """Make a report, if the quota allows."""
        self._board.hands.at = self._hands(now)
        before = self.held
        self.app.report()
        new, dropped = self.held - before, before - self.held
        self.made = (self.made | new) - (dropped - self.delivered)
        if not self._honest:
            self.broken |= new

    def arrive(self, numbers: set[int]) -> None:
        """The gateway has taken a batch with these reports in it."""
        new = numbers - self.delivered
        self.delivered |= new
        self.exposed |= bool(new & self.broken)
        if not self.exposed:
            self.counted |= new

    def publish(self) -> Iterator[bytes]:
        """Messages with what waits, oldest first; whoever takes them has acknowledged them."""
        outbox = self.app.outbox
        while frames := outbox.unsent(FRAMES_PER_MESSAGE):
            outbox.sent([number for number, _ in frames])
            yield b"".join(frame for _, frame in frames)

    def _hands(self, now: float) -> int:
        return int((now - START) * 1000 * self._pace)


@dataclass
class Site:
    """All of it; what happens is for stories to say."""

    folder: Path
    rates: Sequence[tuple[int, int]]
    """Quota and period of the profiles p0, p1, ..."""
    chance: np.random.Generator
    outbox: int = 200
    now: float = START
    skew: float = 0.0
    """What the gateway's wall clock is off by; the registry's is right."""
    lives: dict[int, Life] = field(default_factory=dict)
    mail: list[bytes] = field(default_factory=list)
    """What the broker holds for the gateway."""
    receipts: dict[int, list[bytes]] = field(default_factory=dict)
    """All that each device was ever told."""
    room: int = ROOM
    """Bytes that the engine may use for what devices have done."""
    pruned: int = 0
    """Reports that retention has dropped."""
    _boot: int = 1

    def __post_init__(self) -> None:
        paths = [self.folder / f"p{place}.toml" for place in range(len(self.rates))]
        for place, (quota, period) in enumerate(self.rates):
            paths[place].write_text(PROFILE.format(place=place, quota=quota, period=period))
        Fleet.create(self.folder / "fleet", "lives", paths)
        self.fleet = Fleet(self.folder / "fleet", clock=lambda: datetime.fromtimestamp(self.now, UTC))
        self.store = SqliteStore(self.folder / "gateway.sqlite")
        self._start_engine()
        self.engine.process([])  # it is installed with its clock right

    # ---- the gateway ----

    def clock(self) -> Reading:
        """What the gateway's machine reads."""
        return Reading(round((self.now + self.skew) * 1000), self._boot, round(self.now * 1000))

    def restart(self) -> None:
        """Begin again from what is stored."""
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
        self.engine = Engine(self.store, clock=self.clock, room=self.room)
        self.reload()

    def reload(self) -> None:
        """The gateway reads the fleet folder."""
        self.registry = take_snapshot(self.fleet)
        self.engine.load(self.registry)

    def take(self, messages: Sequence[bytes]) -> None:
        """A batch; whoever was heard in it is told what is stored."""
        received = max(0.0, self.now + self.skew)
        heard = self.engine.process([Message("t", message, received) for message in messages]).heard
        for device, receipt in self.engine.receipts(heard) or []:
            self.receipts.setdefault(device, []).append(receipt)
        came: dict[int, set[int]] = {}
        for frame in [frame for message in messages for frame in split(message, WIDTH)]:
            came.setdefault(DEVICE.of(frame), set()).add(NUMBER.of(frame))
        for device, numbers in came.items():
            if device in self.registry.revoked:
                self.lives[device].refused |= numbers
            else:
                self.lives[device].arrive(numbers)

    def replay(self) -> None:
        """Screen what was refused once more, all of it in one batch."""
        if sum(len(life.refused) for life in self.lives.values()) > PIECES:
            return
        replay(self.store, self.engine)
        for life in self.lives.values():
            if life.id not in self.registry.revoked:
                life.arrive(life.refused)
                life.refused = set()

    def pardon(self, life: Life, *, restore: bool) -> None:
        """The operator takes an exposure back."""
        pardon(self.store, [life.id], restore=restore, reason="any", who="story", clock=self.clock)
        life.exposed = False
        if not restore:
            life.counted.clear()

    def prune(self, age_seconds: float) -> None:
        """Drop what is older, unless the clock is doubtful."""
        self.pruned += self.engine.prune(age_seconds) or 0

    # ---- devices ----

    def enrol(self, profile: str, pace: float = 1.0) -> Life:
        """A new device; its clock runs at some pace."""
        (device,) = self.fleet.add(profile)
        life = Life(device.id, pace, self.issue(device.id), self.chance, self.now)
        self.lives[life.id] = life
        return life

    def provision(self, life: Life, *, profile: str | None = None, erase: bool = False) -> None:
        """A fresh bundle, of another profile if need be, on the same flash or an empty one."""
        if profile is not None:
            with self.fleet._changing() as register:  # an operator's editor
                device = replace(self.fleet.device(life.id), profile=profile)
                register.devices = register.devices.updated(Roll.of([device]))
        life.bundle = self.issue(life.id)
        if erase:
            life.erase()
        life.boot(self.now)

    def issue(self, device: int) -> dict[str, Any]:
        """A further bundle, of which the gateway knows at once."""
        template = {"sensors": SENSORS, "outbox": self.outbox, "interval_s": 0}
        (path,) = write_bundles(self.fleet, [self.fleet.device(device)], template)
        self.reload()
        made: dict[str, Any] = json.loads(path.read_text())
        return made
