# SPDX-License-Identifier: MIT
"""Random scenarios with honest devices, faulty brokers, and a gateway that restarts or has a wrong clock.

Nothing that a device made is lost while its flash works, nothing counts twice, and only devices that ran a modified firmware
are exposed. `peel soak` does this with processes in minutes. Here the same application, registry, engine and database run in one
process, in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from simulation import START, SimulatedDevice, Site

from peel_core import encode_many
from peel_core.primitives import NUMBER_MAX
from peel_gateway.engine.recount import recount
from peel_gateway.estimation.estimate import estimates
from peel_gateway.model.messages import Message
from peel_gateway.model.tables import DeviceIds
from peel_gateway.screening.layers import UNKNOWN_ALLOWANCE
from peel_gateway.screening.numbers import used, used_numbers
from peel_gateway.screening.state_cache import states_of
from peel_gateway.storage.records import read_log

HOUR, DAY = 3600.0, 86_400.0
RATES = [(96, 86_400), (8, 3600), (1000, 3600), (1, 60)]
PAUSES = [(1.0, 2), (60.0, 5), (HOUR, 8), (4 * HOUR, 12), (DAY, 3)]
"""The length of the steps in seconds, and their count, while every device reports."""
SKEWS = [0.0, 5.0, -5.0, 4000.0, -4000.0, DAY, -DAY, 30 * 365 * DAY, -50 * 365 * DAY]

Rng = np.random.Generator
T = TypeVar("T")


class Scenario:
    """A random scenario, run step by step."""

    def __init__(self, folder: Path, rng: Rng) -> None:
        self._rng = rng
        rates = [RATES[place] for place in rng.permutation(len(RATES))[:2]]
        self.site = Site(folder, rates, rng, outbox=self._one([8, 200, 200, 4000]))
        for _ in range(2):
            self._enrol()
        self.events: list[str] = []
        seldom: list[Callable[[], object]] = [
            self._enrol,
            self._issue,
            self._forget,
            self._send_again,
            self._cut_power,
            self._provision_again,
            self._erase,
            self._change_profile,
            self._restart,
            self._reboot,
            self._set_clock,
            self._prune,
            self._replay,
            self._revoke,
            self._unrevoke,
            self._break,
            self._pardon,
        ]
        # A few kinds of rare events, each often: together they reach more states than every kind once.
        self._seldom = [seldom[place] for place in rng.permutation(len(seldom))[:4]]

    def step(self) -> None:
        """Let one random event happen."""
        often: list[Callable[[], object]] = [self._live, self._publish, self._deliver, self._settle]
        event = self._one(often if self._rng.random() < 0.5 else self._seldom)
        self.events.append(event.__name__)
        event()

    def finish(self) -> None:
        """Repair everything, and deliver until every device has receipts for all its reports."""
        site = self.site
        site.skew = 0.0
        for device in site.devices.values():
            if device.id in site.registry.revoked:
                site.fleet.unrevoke([device.id], reason="any")
            device.boot(site.now)
        site.reload()
        for _ in range(100):
            site.now += DAY
            for device in site.devices.values():
                device.report(site.now)
                device.app.outbox.send_again()
                site.queue += device.publish()
            while site.queue:
                self._deliver()
            for device in site.devices.values():
                if device.exposed:
                    site.pardon(device, restore=True)
                device.app.settle(site.receipts[device.id][-1])
            if not any(device.held for device in site.devices.values()):
                return
        raise AssertionError({device.id: sorted(device.held) for device in site.devices.values() if device.held})

    def _one(self, choices: Sequence[T]) -> T:
        return choices[int(self._rng.integers(len(choices)))]

    @property
    def _device(self) -> SimulatedDevice:
        return self._one(list(self.site.devices.values()))

    # ---- what happens to devices ----

    def _enrol(self) -> None:
        self.site.enrol(self._one(["p0", "p1"]), self._one([0.9, 1.0, 1.0, 1.1]))

    def _live(self) -> None:
        seconds, steps = self._one(PAUSES)
        for _ in range(steps):
            self.site.now += seconds
            for device in self.site.devices.values():
                for _ in range(self._one([0, 1, 5, 20])):
                    device.report(self.site.now)

    def _publish(self) -> None:
        for device in self.site.devices.values():
            self.site.queue += device.publish()

    def _send_again(self) -> None:
        self._device.app.outbox.send_again()

    def _settle(self) -> None:
        """Give devices their last receipt, or an old one again."""
        for device in self.site.devices.values():
            if events := self.site.receipts.get(device.id):
                device.app.settle(self._one([events[-1], self._one(events)]))

    def _cut_power(self) -> None:
        self._device.boot(self.site.now)

    def _issue(self) -> None:
        """IssuedBundle a bundle that is installed some days later."""
        device = self._device
        fresh = self.site.issue(device.id)
        for _ in range(6):
            self.site.now += DAY
            for _ in range(self._one([0, 1, 40])):
                device.report(self.site.now)
            self.site.queue += device.publish()
            self._deliver()
        device.bundle = fresh
        device.boot(self.site.now)

    def _provision_again(self) -> None:
        self.site.provision(self._device)

    def _erase(self) -> None:
        self.site.provision(self._device, erase=True)

    def _change_profile(self) -> None:
        self.site.provision(self._device, profile=self._one(["p0", "p1"]), erase=bool(self._rng.integers(2)))

    def _break(self) -> None:
        """Run a firmware with other odds for a while."""
        device = self._device
        device.boot(self.site.now, honest=False)
        device.report(self.site.now)
        device.boot(self.site.now)

    # ---- what happens on the way ----

    def _deliver(self) -> None:
        """Deliver some messages, in any order, some of them twice. Acknowledged ones are removed."""
        queue = self.site.queue
        self._rng.shuffle(queue)
        count = int(self._rng.integers(len(queue) + 1)) if self._rng.integers(3) else len(queue)
        batch = [queue.pop() for _ in range(count)]
        if batch and self._rng.integers(2):
            batch += [self._one(batch) for _ in range(3)]
            queue.append(self._one(batch))
        self.site.take(batch)

    def _forget(self) -> None:
        self.site.queue.clear()

    # ---- what happens to the gateway ----

    def _restart(self) -> None:
        self.site.cache_bytes = self._one([1, 9_000, 2**28])
        self.site.restart()

    def _reboot(self) -> None:
        """Reboot, unless the clock is ahead: with the right time afterwards it could not know how long it was off."""
        if self.site.skew <= 0:
            self.site.reboot(off=self._one([10.0, DAY, 20 * DAY]), skew=self._one([0.0, 0.0, -50 * 365 * DAY, DAY]))

    def _set_clock(self) -> None:
        self.site.skew = self._one(SKEWS)

    def _prune(self) -> None:
        self.site.prune(self._one([60.0, DAY, 30 * DAY]))

    def _replay(self) -> None:
        self.site.replay()

    def _revoke(self) -> None:
        self.site.fleet.revoke([self._device.id])
        self.site.reload()

    def _unrevoke(self) -> None:
        for device in self.site.registry.revoked:
            self.site.fleet.unrevoke([device], reason="any")
        self.site.reload()

    def _pardon(self) -> None:
        for device in self.site.devices.values():
            if device.exposed:
                self.site.pardon(device, restore=bool(self._rng.integers(2)))


def check(site: Site) -> None:
    """Check that each delivered report is stored once, under its number, and only modified devices are exposed."""
    devices = site.store.devices()
    exposed = set(devices.device[devices.cause != 0].tolist())
    assert exposed == {device.id for device in site.devices.values() if device.exposed}
    log = read_log(site.store)
    rows = list(zip(log.device.tolist(), log.number.tolist(), strict=True))
    assert len(set(rows)) == len(rows)
    delivered = {(device.id, number) for device in site.devices.values() for number in device.delivered}
    assert set(rows) <= delivered
    assert len(rows) + site.pruned == len(delivered), sorted(delivered - set(rows))[:10]
    ids = np.array(sorted(site.devices))
    assert used(used_numbers(states_of(DeviceIds(ids), devices))).tolist() == [
        len(site.devices[id_].delivered) for id_ in ids.tolist()
    ]
    counted = sum(len(device.counted) for device in site.devices.values() if not device.exposed)
    tallies = [(profile, site.store.device_tallies(profile.id)) for profile in site.registry.profiles]
    assert sum(estimates(profile, table)[0].n for profile, table in tallies if len(table)) == counted


def run_scenario(folder: Path, rng: Rng, steps: int = 30) -> None:
    """Run a scenario from beginning to end."""
    scenario = Scenario(folder, rng)
    try:
        for _ in range(steps):
            known = scenario.site.store.generation
            scenario.step()
            if scenario.site.store.generation != known:
                check(scenario.site)
        scenario.finish()
        check(scenario.site)
        for device in scenario.site.devices.values():
            assert device.made <= device.delivered, (
                f"device {device.id} lost {sorted(device.made - device.delivered)[:10]}"
            )
        assert recount(scenario.site.store, scenario.site.registry).differences == []
    except Exception as error:
        error.add_note(" ".join(scenario.events))
        raise
    finally:
        scenario.site.store.close()


@pytest.mark.parametrize("place", [*range(6), *(pytest.param(place, marks=pytest.mark.slow) for place in range(6, 20))])
def test_scenarios_of_honest_devices(tmp_path: Path, rng: Rng, place: int) -> None:
    run_scenario(tmp_path, rng)


@pytest.mark.slow
def test_a_backlog_that_comes_newest_first_while_the_clock_is_behind(tmp_path: Path, rng: Rng) -> None:
    """The device is new, and the gateway does not know how long it was off: it must not settle numbers that may still come."""
    site = Site(tmp_path, [(1000, 3600)], rng, outbox=4000)
    device = site.enrol("p0")
    for _ in range(40):
        site.now += 360
        for _ in range(100):
            device.report(site.now)
    site.reboot(off=10.0, skew=-50 * 365 * DAY)
    queue = list(device.publish())
    for part in (queue[-10:], queue[:-10]):
        site.take(part)
        check(site)
    assert len(device.delivered) > 3000
    site.store.close()


def test_what_was_made_with_a_former_bundle_may_come_late_and_what_was_made_too_late_is_not_settled(
    tmp_path: Path, rng: Rng
) -> None:
    """A fresh bundle must be installed within a week. The arrival time of reports does not matter."""
    site = Site(tmp_path, [(96, 86_400)], rng, outbox=20_000)
    device = site.enrol("p0")
    site.issue(device.id)
    for _ in range(4 * 24 * 30):
        site.now += 900
        device.report(site.now)
    (last, _) = site.registry.keyring.bundle_last.tolist()
    in_time = {number for number in device.made if number <= last}
    assert 7 * 80 < len(in_time) < len(device.made)
    site.now += 300 * DAY
    site.take(list(device.publish()))
    assert set(read_log(site.store).number.tolist()) == in_time
    device.app.settle(site.receipts[device.id][-1])
    assert device.held == device.made - in_time
    site.store.close()


class Insider:
    """An attacker with all bundles of one device who tosses honest coins and reports under any numbers."""

    def __init__(self, folder: Path, rng: Rng) -> None:
        self._rng = rng
        self.site = Site(folder, [(96, 86_400), (8, 3600)], rng)
        self.device = self.site.enrol("p0")
        self.pardons = 0
        self._used: set[int] = set()

    def step(self) -> None:
        """Send, let time pass, or let the operator act."""
        things = [self.send] * 6 + [self._wait, self._wait, self._expose, self.site.restart]
        seldom = [self._provision, self._change_profile]
        things[int(self._rng.integers(len(things)))]()
        if self._rng.random() < 0.05:
            seldom[int(self._rng.integers(2))]()

    def send(self) -> None:
        """Send one number at first contact, near or far from the issued ones; later many below, which is not a flood."""
        keyring, sent = self.site.registry.keyring, self.site.store.devices()
        begins = not len(sent) or sent.first_number[0] == 0
        anchors = [*keyring.bundle_first.tolist(), *keyring.bundle_last.tolist(), 10**9, 10**12]
        anchors = anchors if begins else anchors[:-2] + [int(sent.last_number[0])] * 20
        last = min(anchors[int(self._rng.integers(len(anchors)))] + int(self._rng.choice([0, 20, -1000])), NUMBER_MAX)
        count = 1 if begins else int(self._rng.integers(1, 2000))
        chosen = np.array(sorted(set(range(max(1, last - count), last + 1)) - self._used), np.int64)
        self._used.update(chosen.tolist())
        bundle = keyring.find(np.full(len(chosen), self.device.id), chosen)
        for place in np.unique(bundle[bundle >= 0]).tolist():
            self.site.engine.process([Message("t", self._frames(place, chosen[bundle == place]), self.site.now)])

    def _frames(self, bundle: int, numbers: npt.NDArray[np.int64]) -> bytes:
        keyring = self.site.registry.keyring
        keys = keyring.keys.of(np.full(len(numbers), bundle))
        profile = keyring.profiles[int(keyring.bundle_profile[bundle])]
        readings = np.zeros((len(numbers), len(profile.questions)), np.int32)
        devices = np.full(len(numbers), self.device.id)
        return encode_many(profile, devices, keys, numbers, readings, entropy=self._rng.bytes(64)).tobytes()

    def _wait(self) -> None:
        self.site.now += float(self._rng.choice([60.0, HOUR, DAY, 10 * DAY]))

    def _expose(self) -> None:
        """Expose the device by a fault, and pardon it."""
        if self._used:
            number = max(self._used)
            (bundle,) = self.site.registry.keyring.find([self.device.id], [number])
            self.site.engine.process([Message("t", self._frames(bundle, np.array([number])), self.site.now)])
        if self.site.store.devices().cause.any():
            self.site.pardon(self.device, restore=True)
            self.pardons += 1

    def _provision(self) -> None:
        self.site.issue(self.device.id)

    def _change_profile(self) -> None:
        self.site.provision(self.device, profile="p1")

    @property
    def allowed(self) -> float:
        """The most of its reports that can count (docs/how-it-works.md, "Freshness"). The sum of:

        - the reports of the elapsed time, once;
        - at first contact and after each pardon: the allowance and a quota above it, and an outbox below;
        - for each further bundle: the same above its first number, the elapsed time again for each beginning, and a week's reports of
          the former bundle.
        """
        quotas = [(profile.quota, profile.period) for profile in self.site.registry.profiles]
        quota, rate = max(quota for quota, _ in quotas), 1.1 * max(quota / period for quota, period in quotas)
        lived, begun = self.site.now - START, 1 + self.pardons
        further = len(self.site.registry.keyring.bundle_first) - 1
        granted = quota + begun * (1 + 64 + quota + UNKNOWN_ALLOWANCE)
        again = further * (1 + 64 + 3 * quota + rate * ((1 + begun) * lived + 7 * DAY))
        return rate * lived + granted + again


@pytest.mark.parametrize("place", range(8))
def test_an_insider_gets_no_more_reports_counted_than_time_and_allowances_give_him(
    tmp_path: Path, rng: Rng, place: int
) -> None:
    insider = Insider(tmp_path, rng)
    for _ in range(20):
        insider.step()
        tallies = [insider.site.store.device_tallies(profile.id) for profile in insider.site.registry.profiles]
        counted = sum(int((table.plus + table.minus).sum()) for table in tallies)
        assert counted <= insider.allowed
    assert recount(insider.site.store, insider.site.registry).differences == []
    insider.site.store.close()
