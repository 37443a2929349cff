# SPDX-License-Identifier: MIT
"""A session puts a simulation together from a fleet folder, a truth file and a broker; `SimulatedSite` is a site with simulated devices."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from peel_core import Keyring, Profile, load_profile
from peel_core.kinds import SIGN
from peel_core.primitives import READING_ONE
from peel_core.profile import Statistic
from peel_core.topics import fleet_topic
from peel_gateway.fleet.directory import DeviceDirectory
from peel_gateway.fleet.folder import ACTIVE, SIMULATION_FILE, Device, Fleet
from peel_gateway.fleet.snapshot import FleetSnapshot, take_snapshot
from peel_tools.profiles.dataset import Dataset
from peel_tools.servers.broker import AnyBroker, Broker
from peel_tools.servers.gateway import GatewayError, Site
from peel_tools.simulation.fleet import SimulatedFleet
from peel_tools.simulation.publisher import BrokerAddress, Publisher
from peel_tools.simulation.referee import Findings, judge
from peel_tools.simulation.runner import Confirmation, Progress, Simulation
from peel_tools.simulation.traces import BuiltInTraces, CsvTraces, Traces
from peel_tools.simulation.truth import Truth

__all__ = [
    "Plan",
    "Session",
    "SimulatedSite",
    "fleet_of",
    "make_fleet",
    "true_history",
    "true_means",
    "value_of",
    "write_unverified",
]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of a simulation."""

    rate: float = 1000.0
    """Reports per second, all devices and attackers together."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Attacks by kind."""
    seed: int | None = None
    """The same seed makes the same run; None draws one. A continued truth file keeps its seed."""
    devices: int | None = None
    """The number of active devices that take part; None for all."""
    burst: int = 4
    """The reports that a device makes at once and sends in one message."""
    connections: int = 4
    """MQTT connections that the devices share."""
    power_cut: float = 0.0
    """The probability of a power cut after a burst."""
    csv: Path | None = None
    """A file with readings, instead of the built-in traces."""
    confirm: str = "gateway"
    """A device forgets a report once the `gateway` has confirmed it, or once the `broker` has acknowledged it."""
    resend_seconds: float = 60.0
    """Seconds until a device resends an unconfirmed report. They double each time."""


class Session:
    """A simulation between `start` and `stop`. Raises ValueError, DatasetError, TruthError or FleetError if it cannot work."""

    def __init__(
        self,
        fleet: Fleet,
        broker: BrokerAddress,
        truth: Path,
        plan: Plan,
        *,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        snapshot = _taking_part(take_snapshot(fleet), plan.devices)
        self.profiles = snapshot.profiles
        by_gateway = plan.confirm == "gateway"
        verified = next((profile.name for profile in self.profiles if profile.verified), None)
        if verified is not None and not by_gateway:
            raise ValueError(
                f"--confirm {plan.confirm}: profile {verified!r} has verified coins, which need the gateway's receipts. "
                "Use --confirm gateway"
            )
        self.truth = Truth(truth)
        try:
            seed = int(self.truth.settle("seed", str(secrets.randbits(63) if plan.seed is None else plan.seed)))
            data = None if plan.csv is None else Dataset.read(plan.csv)
            self._fleet = SimulatedFleet(
                snapshot,
                {profile.name: _traces(profile, data, seed) for profile in self.profiles},
                self.truth,
                shares=plan.shares,
                seed=seed,
                burst=plan.burst,
                power_cut=plan.power_cut,
                now=time.monotonic(),
                resend_seconds=plan.resend_seconds,
            )
        except BaseException:
            self.truth.close()
            raise
        self._publisher = Publisher(
            broker,
            connections=min(plan.connections, self._fleet.size),
            receipts=fleet_topic(fleet.name, "+", "+", "receipt") if by_gateway else "",
        )
        confirmation = (
            Confirmation(_receipt_keys(snapshot), pause=plan.resend_seconds, coins=self._fleet.coins)
            if by_gateway
            else None
        )
        self.simulation = Simulation(
            self._fleet, self._publisher, self.truth, confirmation, rate=plan.rate, on_progress=on_progress
        )

    @property
    def unplayed(self) -> list[str]:
        """Requested device attacks without a device."""
        return self._fleet.unplayed

    def switch(self, attack: str, on: bool) -> None:
        """Start or stop an attack. Call this between steps, in the thread that runs the simulation."""
        self._fleet.switch(attack, on)

    def start(self) -> None:
        """Connect to the broker. Raise PublisherError if it cannot be reached."""
        try:
            self._publisher.start()
        except BaseException:
            self.truth.close()
            raise

    def stop(self) -> None:
        """Disconnect and close the truth."""
        self._publisher.stop()
        self.truth.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _taking_part(snapshot: FleetSnapshot, count: int | None) -> FleetSnapshot:
    """Return the fleet with `count` of its active devices, spread evenly, or with all of them."""
    active = [device for device in snapshot.devices if device.state == ACTIVE and device.bundles]
    if count is not None and count > len(active):
        raise ValueError(
            f"--devices {count}: the fleet has only {len(active)} that are not revoked. Add more with `peel fleet add FOLDER --count N`"
        )
    if not active:
        raise ValueError("the fleet has no device that is not revoked. Add some with `peel fleet add FOLDER --count N`")
    chosen = active if count is None else _spread(active, count)
    ring = snapshot.keyring
    mine = np.isin(ring.device_ids, [device.id for device in chosen])
    present = ring.last_bundle[mine]
    keyring = Keyring(
        ring.profiles, ring.device_ids[mine], ring.bundle_first[present], ring.profile_of[mine], ring.keys.of(present),
        challenge_root=ring.challenge_root,
    )  # fmt: skip
    used = {device.profile for device in chosen}
    profiles = tuple(profile for profile in snapshot.profiles if profile.name in used)
    return replace(snapshot, profiles=profiles, devices=DeviceDirectory.of(chosen), keyring=keyring)


def _receipt_keys(snapshot: FleetSnapshot) -> dict[int, bytes]:
    """Return the receipt key of each device's last bundle, which is the simulated one."""
    ring = snapshot.keyring
    keys = ring.keys.receipt[ring.last_bundle]
    return {device: key.tobytes() for device, key in zip(ring.device_ids.tolist(), keys, strict=True)}


def _spread(items: list[Device], count: int) -> list[Device]:
    """Return `count` items at even distances, so that each profile keeps its share."""
    return [items[place * len(items) // count] for place in range(count)]


def _traces(profile: Profile, data: Dataset | None, seed: int) -> Traces:
    return BuiltInTraces(profile, seed) if data is None else CsvTraces(profile, data, seed)


def true_means(truth: Truth, profile: Profile, since: float = 0) -> dict[str, float]:
    """Return the true value of each statistic, over the readings behind all acknowledged honest reports."""
    _, means = truth.means(profile.id, profile.size, since)
    return {
        each.name: value_of(profile, each, mean) for each, mean in zip(profile.statistics, means.tolist(), strict=True)
    }


def true_history(truth: Truth, profile: Profile, place: int, seconds: int, since: float = 0) -> list[tuple[int, float]]:
    """Return the truth of one statistic over time: the start of each span of `seconds`, and its value."""
    starts, means = truth.history(profile.id, place, seconds, since)
    values = [value_of(profile, profile.statistics[place], mean) for mean in means.tolist()]
    return list(zip(starts.tolist(), values, strict=True))


def value_of(profile: Profile, statistic: Statistic, mean: float) -> float:
    """Return the value of a statistic from the mean of its Q15 readings. A category's share is that mean."""
    if profile.questions[statistic.question].form != SIGN:
        return mean
    return statistic.low + (1 + mean / READING_ONE) / 2 * (statistic.high - statistic.low)


def make_fleet(folder: Path, name: str = "demo", **devices: int) -> Fleet:
    """Make a simulated fleet with the named built-in profiles and this many devices of each."""
    with as_file(files("peel_tools.simulation") / "profiles") as profiles:
        return fleet_of(folder, name, [profiles / f"{profile}.toml" for profile in sorted(devices)], devices)


def write_unverified(profile: str, folder: Path) -> Path:
    """Write a built-in profile without verified coins, and return its path."""
    text = (files("peel_tools.simulation") / "profiles" / f"{profile}.toml").read_text(encoding="utf-8")
    path = folder / f"{profile}.toml"
    path.write_text(re.sub(r"verify = true\noffline = .*\nbucket = .*\n", "verify = false\n", text), encoding="utf-8")
    return path


def fleet_of(folder: Path, name: str, profiles: Sequence[Path], devices: Mapping[str, int]) -> Fleet:
    """Make a simulated fleet with these profiles and this many devices of each named one."""
    fleet = Fleet.create(folder, name, profiles, simulated=True)
    for profile, count in devices.items():
        if count:
            fleet.enrol(profile, count=count)
    return fleet


_POLL_SECONDS = 0.3


class SimulatedSite(Site):
    """A site with simulated devices and their truth, for the demonstration and tests.

    Parameters
    ----------
    numeric, categorical, mixed : int
        The numbers of devices with the built-in profiles greenhouse, vents and room. A fleet that exists in the folder is used unchanged.
    profiles : sequence of Path
        Other profiles instead of these, over which all devices are spread.
    persistent : bool
        Whether the broker keeps its sessions across a restart.
    embedded : bool, optional
        Which broker: see `peel_tools.servers.broker.Broker`.
    broker : AnyBroker, optional
        Another broker, which is closed with the site.
    settings : mapping
        Further settings of the gateway, by field name.
    """

    def __init__(
        self,
        folder: Path,
        *,
        numeric: int = 0,
        categorical: int = 0,
        mixed: int = 0,
        profiles: Sequence[Path] = (),
        persistent: bool = False,
        embedded: bool | None = None,
        broker: AnyBroker | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        home = folder / "fleet"
        if (home / "fleet.toml").exists():
            fleet = Fleet(home)
        elif profiles:
            devices = _devices_per_profile(numeric + categorical + mixed, profiles)
            fleet = fleet_of(home, "demo", profiles, devices)
        else:
            built_in = {"greenhouse": numeric, "vents": categorical, "room": mixed}
            fleet = make_fleet(home, "demo", **{name: count for name, count in built_in.items() if count})
        super().__init__(folder, fleet, broker or Broker(persistent=persistent, embedded=embedded))
        self.truth_path = fleet.folder / SIMULATION_FILE
        self.add_gateway(settings=settings)

    def session(self, plan: Plan, *, on_progress: Callable[[Progress], None] = lambda progress: None) -> Session:
        """Return a session of devices that report to this broker. All sessions continue the same truth."""
        address = BrokerAddress(host=self.broker.host, port=self.broker.port)
        return Session(self.fleet, address, self.truth_path, plan, on_progress=on_progress)

    def settled(self, seconds: float) -> Findings:
        """Wait until the gateway has recorded everything that was acknowledged, or until the timeout, and compare."""
        deadline = time.monotonic() + seconds
        while not (findings := self.judged()).settled and time.monotonic() < deadline:
            if self.gateway.pid is None:
                raise GatewayError(f"the gateway has ended; end of its log:\n{self.gateway.log_tail()}")
            time.sleep(_POLL_SECONDS)
        return findings

    def judged(self) -> Findings:
        """Compare the gateway's store with the truth now."""
        with self.gateway.store() as store:
            return judge(self.truth_path, store)


def _devices_per_profile(devices: int, profiles: Sequence[Path]) -> dict[str, int]:
    """Return the number of devices per profile, spread evenly."""
    names = [load_profile(path).name for path in profiles]
    return {
        name: devices * (place + 1) // len(names) - devices * place // len(names) for place, name in enumerate(names)
    }
