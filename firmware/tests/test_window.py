# SPDX-License-Identifier: MIT
"""SPEC section 10: in any window of `period` seconds a device takes at most `quota` numbers.

A board runs through a random schedule in true time. Its own clock shows whole ticks since it booted. Every number is recorded
with the true time at which it was handed out. No number may come within a period of the one `quota` numbers before it.
"""

from __future__ import annotations

from datetime import timedelta

from hypothesis import event, given, settings
from hypothesis import strategies as st
from issuing import ENROLLED, issued

from peel_device.ledger import Ledger, block_size
from power_cut import MemoryFiles

PERIOD_S = 3
MICROSECONDS = 1_000_000


class World:
    """True time in microseconds, and one board."""

    def __init__(self, quota: int, deep: bool) -> None:
        self.at = 0
        self.handed_out: list[int] = []
        self.numbers: list[int] = []
        self._quota = quota
        self._deep = deep
        self._issue = issued(1, ENROLLED, quota, PERIOD_S)
        self._files = MemoryFiles()
        self.boot(woke=False)

    def now(self) -> int:
        """Return the board's clock: whole milliseconds since it booted."""
        return self.at // 1000 - self._booted // 1000

    def boot(self, *, woke: bool) -> None:
        self._booted = self.at
        self._ledger = Ledger(
            self._files, "ledger", self, 1, self._quota, PERIOD_S, block_size(self._quota, self._deep)
        )
        self._ledger.start(self._issue.first_number, woke)

    def use(self, most: int) -> None:
        """Take as many numbers as there are."""
        for _ in range(most):
            number = self._ledger.take()
            if number is None:
                return
            self.numbers.append(number)
            self.handed_out.append(self.at)

    def use_when_due(self, most: int) -> None:
        """Take numbers, each as soon as the ledger allows."""
        for _ in range(most):
            self.at += self._ledger.wait() * 1000
            self.use(1)

    def sleep(self, milliseconds: int, share: int) -> None:
        """Sleep deeply, for the whole time or until the power fails."""
        self._ledger.prepare_sleep(milliseconds)
        self.at += milliseconds * 10 * share
        self.boot(woke=share == 100)

    def provision(self, *, erase: bool) -> None:
        """Install a fresh bundle, on the board's flash or on an empty one."""
        made = ENROLLED + timedelta(microseconds=self.at)
        self._issue = issued(self._issue.first_unused(made), made, self._quota, PERIOD_S)
        if erase:
            self._files = MemoryFiles()
        self.boot(woke=False)

    def spoil(self, copy: int) -> None:
        """Damage one copy of the ledger and boot."""
        if len(self._files.kept) > 2:
            self._files.kept[f"ledger.{copy}"] = b"?"
        self.boot(woke=False)


STEPS = st.one_of(
    st.tuples(st.just("use"), st.integers(1, 300)),
    st.tuples(st.just("use_when_due"), st.integers(1, 40)),
    st.tuples(st.just("pass"), st.integers(0, PERIOD_S * MICROSECONDS)),
    st.tuples(st.just("cut"), st.integers(0, 2000)),
    st.tuples(st.just("sleep"), st.tuples(st.integers(0, PERIOD_S * 1000), st.sampled_from([30, 100]))),
    st.tuples(st.just("provision"), st.booleans()),
    st.tuples(st.just("spoil"), st.integers(0, 1)),
)


def live(world: World, schedule: list[tuple[str, object]]) -> None:
    for name, detail in schedule:
        match name, detail:
            case "pass", int(microseconds):
                world.at += microseconds
            case "cut", int(microseconds):
                world.at += microseconds
                world.boot(woke=False)
            case "sleep", (int(milliseconds), int(share)):
                world.sleep(milliseconds, share)
            case "provision", bool(erase):
                world.provision(erase=erase)
            case "spoil", int(copy):
                world.spoil(copy)
            case "use", int(most):
                world.use(most)
            case "use_when_due", int(most):
                world.use_when_due(most)


def most_in_a_window(times: list[int]) -> int:
    """Return the largest count of times in any half-open window of one period."""
    most = first = 0
    for last, time in enumerate(times):
        while time - times[first] >= PERIOD_S * MICROSECONDS:
            first += 1
        most = max(most, last - first + 1)
    return most


@settings(max_examples=600)
@given(
    quota=st.sampled_from([1, 2, 3, 8, 15, 17, 96, 600]),
    deep=st.booleans(),
    schedule=st.lists(STEPS, min_size=1, max_size=60),
)
def test_no_window_holds_more_than_the_quota(quota: int, deep: bool, schedule: list[tuple[str, object]]) -> None:
    world = World(quota, deep)
    live(world, schedule)
    most = most_in_a_window(world.handed_out)
    event(f"used {'all' if most == quota else 'most' if 2 * most > quota else 'little'} of the quota")
    assert most <= quota
    assert world.numbers == sorted(set(world.numbers))


def test_a_greedy_device_comes_close_to_its_quota() -> None:
    """The limit is not met by sending little: a greedy device uses the whole quota in some window and 7/8 in every one."""
    world = World(96, deep=False)
    world.use(1)
    world.at += PERIOD_S * MICROSECONDS  # now there are the rest of a block and a full bucket
    world.use_when_due(2000)
    assert most_in_a_window(world.handed_out) == 96
    in_a_period = len([time for time in world.handed_out if time > world.at - PERIOD_S * MICROSECONDS])
    assert in_a_period >= 96 * 7 // 8
