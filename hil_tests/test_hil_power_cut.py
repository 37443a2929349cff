"""Power cuts at random moments: no number twice, no budget back, nothing lost that was in the outbox."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from peel_tools.broker import free_port
from peel_tools.duts import Dut
from peel_tools.hil.device import Device, Flash
from peel_tools.hil.site import Site
from peel_tools.hil.tap import Tap

TRACES = {"temperature": [18.0, 24.0, 21.0], "humidity": [40.0, 65.0]}
TIMEOUT_MS = 500


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How often to cut, and the longest time between start and cut: long enough for a boot and some reports."""

    cuts: int
    longest: float


PLANS = {"mps2": Plan(cuts=50, longest=1.6), "pico": Plan(cuts=15, longest=4.0)}
UNPLUGGED_EVERY = 3
"""In one run of so many the line leads nowhere, so that frames pile up."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path / "site", epsilon=1.0, quota=100_000, period=60) as running:
        yield running


class Witness:
    """Compares what is on flash after each cut with all that was there before."""

    def __init__(self, epsilon_q20: int) -> None:
        self._epsilon = epsilon_q20
        self._last = Flash(next_number=0, spent_q20=0, dropped=0, frames={})
        self.stored: dict[int, bytes] = {}
        """Every frame that was ever found in the outbox, by number."""
        self.survivals = 0
        """How often there was something in it."""

    def look(self, flash: Flash) -> None:
        floor = self._last.next_number
        assert flash.next_number >= floor
        assert flash.spent_q20 >= self._last.spent_q20
        assert flash.spent_q20 == self._epsilon * max(0, flash.next_number - 1)  # every number was paid for
        assert flash.dropped == 0
        for number, frame in flash.frames.items():
            assert int.from_bytes(frame[10:16], "little") == number
            assert number < flash.next_number  # spent before it was used
            if number in self.stored:
                assert self.stored[number] == frame
            else:
                assert number >= floor  # not one that an earlier run may have used
        self.stored |= flash.frames
        self.survivals += bool(flash.frames)
        self._last = flash


@pytest.mark.boards("mps2", "pico")
def test_power_cuts(board: str, site: Site, open_board: Callable[..., Dut], tmp_path: Path) -> None:
    plan, chance = PLANS[board], random.Random(50)  # noqa: S311 - to be repeatable
    dut = open_board(folder=tmp_path / "board")
    device = Device(dut, site.enrol(TRACES, interval_s=0.02, outbox=5000))
    device.provision()
    dut.kill()
    witness = Witness(site.profile.epsilon_q20)
    with Tap(site.endpoint, site.profile.frame_bytes) as tap:
        for run in range(plan.cuts):
            dut.link = ("127.0.0.1", free_port()) if run % UNPLUGGED_EVERY == 0 else site.endpoint
            dut.start()
            witness.look(device.flash())
            device.start(timeout_ms=TIMEOUT_MS, wait=False)
            time.sleep(chance.uniform(0.0, plan.longest))
            dut.kill()
        dut.link = site.endpoint
        dut.start()
        witness.look(device.flash())
        device.start(timeout_ms=TIMEOUT_MS)
        site.wait(lambda: set(witness.stored) <= set(site.accepted(device.label)), "the outbox of all runs", 90)
    dut.reset()
    witness.look(device.flash())

    # Enough happened for this to mean something.
    accepted = site.accepted(device.label)
    assert witness.survivals > plan.cuts // 4
    assert len(accepted) > plan.cuts
    # On the wire, too, a number always came with the same bytes, the ones that were on flash.
    sent: dict[int, bytes] = {}
    for frame in tap.frames:
        assert sent.setdefault(int.from_bytes(frame[10:16], "little"), frame) == frame
    assert all(sent.get(number, frame) == frame for number, frame in witness.stored.items())
    assert set(site.verdicts()) <= {"accepted", "redelivered"}
    assert site.device_cause(device.label) is None
