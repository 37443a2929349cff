# SPDX-License-Identifier: MIT
"""Lives of honest devices: whatever happens to them, to the broker, to the gateway and its clock, nothing that a device made is lost
while its flash lives, nothing counts twice, and nobody is exposed but who had another firmware for a while.

What `peel soak` does with processes in minutes, here in one process and a fraction of a second: the real application on its flash, the
real registry, the real engine on a real database, and their receipts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from lives import START, Life, Site

from peel_core import encode_many
from peel_core.primitives import NUMBER_MAX
from peel_gateway.engine.recount import recount
from peel_gateway.estimation.estimate import estimates
from peel_gateway.model.message import Message
from peel_gateway.screening.book import seen_in, states_of
from peel_gateway.screening.freshness import UNKNOWN_ALLOWANCE
from peel_gateway.screening.seen import used

HOUR, DAY = 3600.0, 86_400.0
RATES = [(96, 86_400), (8, 3600), (1000, 3600), (1, 60)]
PAUSES = [(1.0, 2), (60.0, 5), (HOUR, 8), (4 * HOUR, 12), (DAY, 3)]
"""How long steps are, and how many there are while everybody reports."""
SKEWS = [0.0, 5.0, -5.0, 4000.0, -4000.0, DAY, -DAY, 30 * 365 * DAY, -50 * 365 * DAY]

Chance = np.random.Generator
T = TypeVar("T")


class Story:
    """A random one; it happens step by step."""

    def __init__(self, folder: Path, chance: Chance) -> None:
        self._chance = chance
        rates = [RATES[place] for place in chance.permutation(len(RATES))[:2]]
        self.site = Site(folder, rates, chance, outbox=self._one([8, 200, 200, 4000]))
        for _ in range(2):
            self._enrol()
        self.told: list[str] = []
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
        # Of all that could happen a few things, often: together they go further than everything once.
        self._seldom = [seldom[place] for place in chance.permutation(len(seldom))[:4]]

    def happens(self) -> None:
        """Something."""
        often: list[Callable[[], object]] = [self._live, self._publish, self._deliver, self._settle]
        event = self._one(often if self._chance.random() < 0.5 else self._seldom)
        self.told.append(event.__name__)
        event()

    def ends(self) -> None:
        """All is put right, and every device is told of everything that it still holds."""
        site = self.site
        site.skew = 0.0
        for life in site.lives.values():
            if life.id in site.registry.revoked:
                site.fleet.unrevoke([life.id], reason="any")
            life.boot(site.now)
        site.reload()
        for _ in range(100):
            site.now += DAY
            for life in site.lives.values():
                life.report(site.now)
                life.app.outbox.send_again()
                site.mail += life.publish()
            while site.mail:
                self._deliver()
            for life in site.lives.values():
                if life.exposed:
                    site.pardon(life, restore=True)
                life.app.settle(site.receipts[life.id][-1])
            if not any(life.held for life in site.lives.values()):
                return
        raise AssertionError({life.id: sorted(life.held) for life in site.lives.values() if life.held})

    def _one(self, choices: Sequence[T]) -> T:
        return choices[int(self._chance.integers(len(choices)))]

    @property
    def _life(self) -> Life:
        return self._one(list(self.site.lives.values()))

    # ---- what happens to devices ----

    def _enrol(self) -> None:
        self.site.enrol(self._one(["p0", "p1"]), self._one([0.9, 1.0, 1.0, 1.1]))

    def _live(self) -> None:
        seconds, steps = self._one(PAUSES)
        for _ in range(steps):
            self.site.now += seconds
            for life in self.site.lives.values():
                for _ in range(self._one([0, 1, 5, 20])):
                    life.report(self.site.now)

    def _publish(self) -> None:
        for life in self.site.lives.values():
            self.site.mail += life.publish()

    def _send_again(self) -> None:
        self._life.app.outbox.send_again()

    def _settle(self) -> None:
        """Devices hear their last receipt, or an old one once more."""
        for life in self.site.lives.values():
            if told := self.site.receipts.get(life.id):
                life.app.settle(self._one([told[-1], self._one(told)]))

    def _cut_power(self) -> None:
        self._life.boot(self.site.now)

    def _issue(self) -> None:
        """A bundle that comes onto its board some days later."""
        life = self._life
        fresh = self.site.issue(life.id)
        for _ in range(6):
            self.site.now += DAY
            for _ in range(self._one([0, 1, 40])):
                life.report(self.site.now)
            self.site.mail += life.publish()
            self._deliver()
        life.bundle = fresh
        life.boot(self.site.now)

    def _provision_again(self) -> None:
        self.site.provision(self._life)

    def _erase(self) -> None:
        self.site.provision(self._life, erase=True)

    def _change_profile(self) -> None:
        self.site.provision(self._life, profile=self._one(["p0", "p1"]), erase=bool(self._chance.integers(2)))

    def _break(self) -> None:
        """A while with a firmware that tosses with another budget."""
        life = self._life
        life.boot(self.site.now, budget_off=1)
        life.report(self.site.now)
        life.boot(self.site.now)

    # ---- what happens on the way ----

    def _deliver(self) -> None:
        """Some of the mail, in any order, some of it twice; what was acknowledged is gone."""
        mail = self.site.mail
        self._chance.shuffle(mail)
        count = int(self._chance.integers(len(mail) + 1)) if self._chance.integers(3) else len(mail)
        batch = [mail.pop() for _ in range(count)]
        if batch and self._chance.integers(2):
            batch += [self._one(batch) for _ in range(3)]
            mail.append(self._one(batch))
        self.site.take(batch)

    def _forget(self) -> None:
        self.site.mail.clear()

    # ---- what happens to the gateway ----

    def _restart(self) -> None:
        self.site.room = self._one([1, 9_000, 2**28])
        self.site.restart()

    def _reboot(self) -> None:
        """Not while its clock is ahead: a machine that comes up with the right time then cannot know how long it was off."""
        if self.site.skew <= 0:
            self.site.reboot(off=self._one([10.0, DAY, 20 * DAY]), skew=self._one([0.0, 0.0, -50 * 365 * DAY, DAY]))

    def _set_clock(self) -> None:
        self.site.skew = self._one(SKEWS)

    def _prune(self) -> None:
        self.site.prune(self._one([60.0, DAY, 30 * DAY]))

    def _replay(self) -> None:
        self.site.replay()

    def _revoke(self) -> None:
        self.site.fleet.revoke([self._life.id])
        self.site.reload()

    def _unrevoke(self) -> None:
        for device in self.site.registry.revoked:
            self.site.fleet.unrevoke([device], reason="any")
        self.site.reload()

    def _pardon(self) -> None:
        for life in self.site.lives.values():
            if life.exposed:
                self.site.pardon(life, restore=bool(self._chance.integers(2)))


def check(site: Site) -> None:
    """What is stored is what was delivered: once, under its own number, and blaming only who had another firmware."""
    devices = site.store.devices()
    exposed = set(devices.device[devices.cause != 0].tolist())
    assert exposed == {life.id for life in site.lives.values() if life.exposed}
    log = site.store.log()
    rows = list(zip(log.device.tolist(), log.number.tolist(), strict=True))
    assert len(set(rows)) == len(rows)
    delivered = {(life.id, number) for life in site.lives.values() for number in life.delivered}
    assert set(rows) <= delivered
    assert len(rows) + site.pruned == len(delivered), sorted(delivered - set(rows))[:10]
    ids = np.array(sorted(site.lives))
    assert used(seen_in(states_of(ids, devices))).tolist() == [len(site.lives[id_].delivered) for id_ in ids.tolist()]
    counted = sum(len(life.counted) for life in site.lives.values() if not life.exposed)
    tallies = [(profile, site.store.device_tallies(profile.id)) for profile in site.registry.profiles]
    assert sum(estimates(profile, table)[0].n for profile, table in tallies if len(table)) == counted


def tell(folder: Path, chance: Chance, steps: int = 30) -> None:
    """A story from its beginning to its end."""
    story = Story(folder, chance)
    try:
        for _ in range(steps):
            known = story.site.store.generation
            story.happens()
            if story.site.store.generation != known:
                check(story.site)
        story.ends()
        check(story.site)
        for life in story.site.lives.values():
            assert life.made <= life.delivered, f"device {life.id} lost {sorted(life.made - life.delivered)[:10]}"
        assert recount(story.site.store, story.site.registry).differences == []
    except Exception as error:
        error.add_note(" ".join(story.told))
        raise
    finally:
        story.site.store.close()


@pytest.mark.parametrize("place", range(20))
def test_lives_of_honest_devices(tmp_path: Path, rng: Chance, place: int) -> None:
    tell(tmp_path, rng)


def test_a_backlog_that_comes_newest_first_while_the_clock_is_behind(tmp_path: Path, rng: Chance) -> None:
    """Never heard, and the gateway does not know for how long it was off: it must not settle what may still come."""
    site = Site(tmp_path, [(1000, 3600)], rng, outbox=4000)
    life = site.enrol("p0")
    for _ in range(40):
        site.now += 360
        for _ in range(100):
            life.report(site.now)
    site.reboot(off=10.0, skew=-50 * 365 * DAY)
    mail = list(life.publish())
    for part in (mail[-10:], mail[:-10]):
        site.take(part)
        check(site)
    assert len(life.delivered) > 3000
    site.store.close()


def test_what_was_made_with_a_former_bundle_may_come_late_and_what_was_made_too_late_is_not_settled(
    tmp_path: Path, rng: Chance
) -> None:
    """A fresh bundle is to be on its board within a week; when reports arrive does not matter."""
    site = Site(tmp_path, [(96, 86_400)], rng, outbox=20_000)
    life = site.enrol("p0")
    site.issue(life.id)
    for _ in range(4 * 24 * 30):
        site.now += 900
        life.report(site.now)
    (last, _) = site.registry.keyring.bundle_last.tolist()
    in_time = {number for number in life.made if number <= last}
    assert 7 * 80 < len(in_time) < len(life.made)
    site.now += 300 * DAY
    site.take(list(life.publish()))
    assert set(site.store.log().number.tolist()) == in_time
    life.app.settle(site.receipts[life.id][-1])
    assert life.held == life.made - in_time
    site.store.close()


class Insider:
    """Somebody who has all bundles of one device, tosses honest coins, and reports under whatever numbers he likes."""

    def __init__(self, folder: Path, chance: Chance) -> None:
        self._chance = chance
        self.site = Site(folder, [(96, 86_400), (8, 3600)], chance)
        self.life = self.site.enrol("p0")
        self.pardons = 0
        self._used: set[int] = set()

    def happens(self) -> None:
        """He speaks, or time passes, or the operator does what operators do."""
        things = [self.speak] * 6 + [self._wait, self._wait, self._fall, self.site.restart]
        seldom = [self._provision, self._change_profile]
        things[int(self._chance.integers(len(things)))]()
        if self._chance.random() < 0.05:
            seldom[int(self._chance.integers(2))]()

    def speak(self) -> None:
        """One number where he begins, near or far from those that he was given; then many below, where nothing is a flood."""
        keyring, sent = self.site.registry.keyring, self.site.store.devices()
        begins = not len(sent) or sent.first_number[0] == 0
        anchors = [*keyring.bundle_first.tolist(), *keyring.bundle_last.tolist(), 10**9, 10**12]
        anchors = anchors if begins else anchors[:-2] + [int(sent.last_number[0])] * 20
        last = min(
            anchors[int(self._chance.integers(len(anchors)))] + int(self._chance.choice([0, 20, -1000])), NUMBER_MAX
        )
        count = 1 if begins else int(self._chance.integers(1, 2000))
        chosen = np.array(sorted(set(range(max(1, last - count), last + 1)) - self._used), np.int64)
        self._used.update(chosen.tolist())
        bundle = keyring.find(np.full(len(chosen), self.life.id), chosen)
        for place in np.unique(bundle[bundle >= 0]).tolist():
            self.site.engine.process([Message("t", self._frames(place, chosen[bundle == place]), self.site.now)])

    def _frames(self, bundle: int, numbers: npt.NDArray[np.int64]) -> bytes:
        keyring = self.site.registry.keyring
        keys = keyring.keys.of(np.full(len(numbers), bundle))
        profile = keyring.profiles[int(keyring.bundle_profile[bundle])]
        readings = np.zeros((len(numbers), profile.readings), np.int32)
        devices = np.full(len(numbers), self.life.id)
        return encode_many(profile, devices, keys, numbers, readings, entropy=self._chance.bytes(64)).tobytes()

    def _wait(self) -> None:
        self.site.now += float(self._chance.choice([60.0, HOUR, DAY, 10 * DAY]))

    def _fall(self) -> None:
        """Something exposes him, and the operator believes his excuse."""
        if self._used:
            number = max(self._used)
            (bundle,) = self.site.registry.keyring.find([self.life.id], [number])
            self.site.engine.process([Message("t", self._frames(bundle, np.array([number])), self.site.now)])
        if self.site.store.devices().cause.any():
            self.site.pardon(self.life, restore=True)
            self.pardons += 1

    def _provision(self) -> None:
        self.site.issue(self.life.id)

    def _change_profile(self) -> None:
        self.site.provision(self.life, profile="p1")

    @property
    def entitled(self) -> float:
        """The most reports of his that can count (docs/how-it-works.md, "Freshness").

        What time brings, once; where he begins, at first contact and after each pardon, the allowance and a quota above it, and what an
        outbox holds below. With each further bundle the same above its first number, what time brings once more to each beginning, and
        what the former bundle can have reached until a week after.
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
    tmp_path: Path, rng: Chance, place: int
) -> None:
    insider = Insider(tmp_path, rng)
    for _ in range(20):
        insider.happens()
        tallies = [insider.site.store.device_tallies(profile.id) for profile in insider.site.registry.profiles]
        counted = sum(int((table.plus + table.minus).sum()) for table in tallies)
        assert counted <= insider.entitled
    assert recount(insider.site.store, insider.site.registry).differences == []
    insider.site.store.close()
