# SPDX-License-Identifier: MIT
"""A soak's schedule: repeated by its seed, in order, with some of everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from peel_gateway.exits import LASTING, Exit
from peel_research.soak.faults import DAMAGES, wrong_by
from peel_research.soak.run import _Driver
from peel_research.soak.schedule import KINDS, Fault, make_schedule
from peel_tools.cli import main
from peel_tools.servers.gateway import GatewayError


def test_each_kind_of_fault_can_be_done() -> None:
    assert set(DAMAGES) == set(KINDS)


def test_the_same_seed_makes_the_same_schedule(seed: int) -> None:
    assert make_schedule(60, seed, 4) == make_schedule(60, seed, 4)
    assert make_schedule(60, seed, 4) != make_schedule(60, seed + 1, 4)


def test_faults_of_one_track_never_overlap_and_all_end_in_time(seed: int) -> None:
    schedule = make_schedule(300, seed, 3)
    assert schedule == sorted(schedule)
    assert max(fault.at + fault.seconds for fault in schedule) <= 300
    assert {fault.target for fault in schedule} == {0, 1, 2}
    for track in {kind.track for kind in KINDS.values()}:
        mine = [fault for fault in schedule if KINDS[fault.kind].track == track]
        assert all(before.at + before.seconds < after.at for before, after in pairwise(mine))


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
@pytest.mark.parametrize("place", range(20))
def test_half_a_minute_has_some_of_everything(seed: int, place: int, store: str) -> None:
    done = {fault.kind for fault in make_schedule(30, seed + place, 4, store)}
    assert done == {kind.name for kind in KINDS.values() if kind.store in ("", store)}


def test_the_plan_can_be_read_without_doing_it(seed: int) -> None:
    words = ["soak", "--plan", "--seconds", "20", "--seed", str(seed)]
    lines = CliRunner().invoke(main, words, catch_exceptions=False).stdout.splitlines()
    assert lines == [str(fault) for fault in make_schedule(20, seed, 4)]
    fewer = CliRunner().invoke(main, [*words, "--without", "broker_kill"], catch_exceptions=False).stdout.splitlines()
    assert fewer == [line for line in lines if "broker_kill" not in line]


def test_a_wrong_clock_is_off_by_seconds_or_decades() -> None:
    now = 1.8e9
    off = [wrong_by(place / 1000, now) for place in range(1000)]
    assert off == sorted(off)
    assert off[0] == -now and off[-1] == 2**32 - now
    assert sum(abs(seconds) < 3600 for seconds in off) > 250
    assert sum(now + seconds == 0 for seconds in off) == 101


def test_a_fault_waits_for_the_one_before_it_on_its_track(monkeypatch: pytest.MonkeyPatch) -> None:
    """Healing may take its time, and both are due then: a device that is switched on twice would be two."""
    active: list[str] = []

    @contextmanager
    def damage(stage: object, fault: Fault) -> Iterator[None]:
        assert not active
        active.append(fault.kind)
        yield
        active.remove(fault.kind)

    kinds = ("power_cut", "flash_erase")
    monkeypatch.setattr("peel_research.soak.run.DAMAGES", dict.fromkeys(kinds, damage))
    faults = [Fault(at=2.0 * place, seconds=1.0, kind=kind, target=0, amount=0.0) for place, kind in enumerate(kinds)]
    stage: Any = SimpleNamespace(gateways=[], unwanted=set())
    driver = _Driver(stage, faults, print)
    seen = []
    for now in (5.0, 5.5, 6.5, 8.0):
        driver.step(now)
        seen.append(list(active))
    assert seen == [["power_cut"], ["power_cut"], ["flash_erase"], []]


@pytest.mark.parametrize("code", LASTING)
def test_a_gateway_that_no_service_manager_would_start_again_ends_the_run(code: Exit) -> None:
    gateway = SimpleNamespace(pid=None, code=code, log_tail=lambda: "why")
    stage: Any = SimpleNamespace(gateways=[gateway], unwanted=[])
    with pytest.raises(GatewayError, match=f"ended with {code:d}, for good; end of its log:\nwhy"):
        _Driver(stage, [], print).step(0.0)
