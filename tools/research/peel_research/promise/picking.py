# SPDX-License-Identifier: MIT
"""Insiders who pick what a time bucket holds of one attribute: with an honest coin, by the numbers that they send, and when.

All play against the whole engine. A figure is the number of their reports about the attribute in the target bucket, over that of an honest
device at full quota: a mean over several insiders, who have saved some numbers and know what each of them assigns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Profile, index_many, make_profile
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.bucketing import bucket_capacity
from peel_gateway.storage.records import read_log
from peel_research.promise.engine import Site

__all__ = ["HELD", "SETTINGS", "STRATEGIES", "Picked", "Setting", "pick", "picking", "picking_figures"]

Ints = npt.NDArray[np.int64]
Delivery = Iterator[tuple[int, Ints]]
"""Buckets from the target on, and the numbers that one message delivers in each."""

INSIDERS = 20
PERIOD = 3600
TARGET = 0
"""The attribute that they are after."""
HOUR = 12
"""Buckets of five minutes."""


@dataclass(frozen=True)
class Setting:
    """A profile: how many attributes, and how many reports per bucket of five minutes a device has."""

    k: int
    reports: int

    @property
    def name(self) -> str:
        """A name for tables."""
        return f"k{self.k}_reports{self.reports}"

    @property
    def quota(self) -> int:
        """Reports per hour."""
        return self.reports * HOUR

    @property
    def room(self) -> int:
        """Numbers that a bucket holds."""
        return int(bucket_capacity(np.array(self.quota), np.array(PERIOD), PERIOD // HOUR))

    @property
    def share(self) -> float:
        """The share of report numbers that assign the target."""
        return 1 / self.k

    def profile(self) -> Profile:
        """A profile of means."""
        attributes = [{"name": f"a{i}", "kind": "mean", "low": -1, "high": 1} for i in range(self.k)]
        table = {"name": "picking", "epsilon": 1, "verify": False, "seed": 1, "width": 48}
        return make_profile({**table, "quota": self.quota, "period": PERIOD, "attribute": attributes})


SETTINGS = (Setting(4, 5), Setting(16, 5), Setting(16, 60))
HELD = (30, 200, 1000)
"""Numbers that are saved."""


@dataclass(frozen=True)
class _Held:
    """The numbers 1, 2, ... that an insider has saved, and which of them assign the target."""

    wanted: npt.NDArray[np.bool_]
    room: int

    @property
    def chosen(self) -> Ints:
        """The newest numbers that assign the target, as many as a bucket holds."""
        return np.asarray(np.flatnonzero(self.wanted)[-self.room :] + 1)

    def all_but(self, numbers: Ints) -> Ints:
        """The rest."""
        return np.setdiff1d(np.arange(1, len(self.wanted) + 1), numbers)

    def richest(self, windows: int) -> list[Ints]:
        """The windows with most of the target, apart from each other, in the order of their numbers."""
        counts = np.convolve(self.wanted, np.ones(self.room), "valid")
        found: list[int] = []
        for start in np.argsort(-counts, kind="stable").tolist():
            if all(abs(start - other) >= self.room for other in found):
                found.append(start)
            if len(found) == windows:
                break
        return [np.arange(start + 1, start + 1 + self.room) for start in sorted(found)]


def _chosen_first(held: _Held) -> Delivery:
    """The target's numbers first, then the rest in the same bucket."""
    yield 0, held.chosen
    yield 0, held.all_but(held.chosen)


def _rest_later(held: _Held) -> Delivery:
    """The target's numbers at the end of one bucket, the rest in the next."""
    yield 0, held.chosen
    yield 1, held.all_but(held.chosen)


def _rest_before(held: _Held) -> Delivery:
    """The rest in the bucket before, so that the target's numbers are late."""
    yield -1, held.all_but(held.chosen)
    yield 0, held.chosen


def _rest_never(held: _Held) -> Delivery:
    """The target's numbers alone, one message each."""
    for number in held.chosen:
        yield 0, np.array([number])


def _in_order(held: _Held) -> Delivery:
    """All numbers in order: each later bucket is filled, and what is sent beyond that assigns the target."""
    yield 0, np.array([1])
    number, bucket = 2, 1
    while number + held.room <= len(held.wanted):
        yield bucket, np.arange(number, number + held.room)
        number += held.room
        while number <= len(held.wanted) and held.wanted[number - 1]:
            yield bucket, np.array([number])
            number += 1
        bucket += 1


def _richest_window(held: _Held) -> Delivery:
    """The window that has most of the target, then the rest. It is also what a device can do that sends in order and waits."""
    (window,) = held.richest(1)
    yield 0, window
    yield 1, held.all_but(window)


def _richest_hour(held: _Held) -> Delivery:
    """The richest windows for each bucket of an hour, then the rest."""
    windows = held.richest(HOUR)
    yield from enumerate(windows)
    yield HOUR, held.all_but(np.concatenate(windows))


STRATEGIES: dict[str, tuple[Callable[[_Held], Delivery], int]] = {
    "chosen_first": (_chosen_first, 1),
    "rest_later": (_rest_later, 1),
    "rest_before": (_rest_before, 1),
    "rest_never": (_rest_never, 1),
    "in_order": (_in_order, 1),
    "richest_window": (_richest_window, 1),
    "richest_hour": (_richest_hour, HOUR),
}
"""With the number of buckets that are the target."""


@dataclass(frozen=True)
class Picked:
    """The outcome of insiders."""

    share: float
    """Their reports about the attribute in the target, over those of an honest device at full quota; a mean."""
    exposed: int
    """The number of exposed insiders."""


def picking() -> dict[str, dict[str, dict[str, float]]]:
    """Return the shares for each setting, strategy and number of saved numbers; and how many insiders were exposed, if any."""
    return {setting.name: picking_figures(setting, STRATEGIES) for setting in SETTINGS}


def picking_figures(setting: Setting, strategies: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the shares of one setting by strategy and number of saved numbers."""
    return {strategy: dict(_figures(setting, strategy)) for strategy in strategies}


def _figures(setting: Setting, strategy: str) -> Iterator[tuple[str, float]]:
    for held in HELD:
        picked = pick(setting, strategy, held)
        yield f"held_{held}", round(picked.share, 3)
        if picked.exposed:
            yield f"exposed_{held}", picked.exposed


def pick(setting: Setting, strategy: str, held: int) -> Picked:
    """Let insiders play a strategy with so many saved numbers."""
    deliver, buckets = STRATEGIES[strategy]
    seconds = PERIOD // HOUR
    with Site.opened("picking", setting.profile(), INSIDERS, seed=8, bucket_seconds=seconds, days=14) as site:
        target = (site.now // seconds + 1) * seconds
        for bucket, batch in _batches(site, deliver, held, setting.room):
            site.now = target + bucket * seconds
            site.send([frame for device, numbers in batch for frame in site.honest(device, numbers.tolist(), 1.0)])
        log, devices = read_log(site.store), site.store.devices()
    hit = (log.verdict == Verdict.ACCEPTED) & (log.index == TARGET)
    hit &= (log.bucket >= target) & (log.bucket < target + buckets * seconds)
    fair = setting.reports * buckets * setting.share
    return Picked(float(hit.sum()) / INSIDERS / fair, int((devices.cause != 0).sum()))


def _batches(
    site: Site, deliver: Callable[[_Held], Delivery], held: int, room: int
) -> Iterator[tuple[int, list[tuple[int, Ints]]]]:
    """Yield buckets with what each insider delivers: the first messages of all in a bucket, then the second ones, and so on."""
    batches = defaultdict(list)
    for device in range(1, INSIDERS + 1):
        sent: dict[int, int] = defaultdict(int)
        for bucket, numbers in deliver(_saved(site, device, held, room)):
            if len(numbers):
                batches[bucket, sent[bucket]].append((device, numbers))
                sent[bucket] += 1
    for (bucket, _), batch in sorted(batches.items(), key=lambda each: each[0]):
        yield bucket, batch


def _saved(site: Site, device: int, held: int, room: int) -> _Held:
    numbers = np.arange(1, held + 1)
    who = np.full(held, device - 1)
    return _Held(index_many(site.profile, site.ids[who], site.keys.of(who), numbers) == TARGET, room)
