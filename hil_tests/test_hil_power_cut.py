# SPDX-License-Identifier: MIT
"""Power cuts at random moments: no number twice, no budget refunded, no frame of the outbox lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from peel_core.frame import NUMBER
from peel_hil.device import Device, Flash
from peel_hil.duts import Dut
from peel_hil.listener import Tap
from peel_hil.site import TRACES, BoardSite
from peel_tools.servers import free_port

TIMEOUT_MS = 1500
CUTS = {"mps2": 32, "pico": 8}


class Witness:
    """Compares the flash after each cut with all that was there before."""

    def __init__(self, epsilon_q20: int) -> None:
        self._epsilon = epsilon_q20
        self._last = Flash(next_number=0, spent_q20=0, dropped=0, frames={})
        self.stored: dict[int, bytes] = {}
        """Every frame ever found in the outbox, by number."""
        self.survivals = 0
        """The count of cuts with a non-empty outbox."""

    def look(self, flash: Flash) -> None:
        floor = self._last.next_number
        assert flash.next_number >= floor
        assert flash.spent_q20 >= self._last.spent_q20
        assert flash.spent_q20 == self._epsilon * max(0, flash.next_number - 1)  # every number was paid for
        assert 0 <= flash.dropped - self._last.dropped <= 1  # only the frame that the cut tore
        for number, frame in flash.frames.items():
            assert NUMBER.of(frame) == number
            assert number < flash.next_number  # spent before use
            if number in self.stored:
                assert self.stored[number] == frame
            else:
                assert number >= floor  # not one that an earlier run may have used
        self.stored |= flash.frames
        self.survivals += bool(flash.frames)
        self._last = flash


class Cutter:
    """Starts a device and cuts the power at a random moment: while it starts, stores frames, or sends them."""

    def __init__(self, site: BoardSite, device: Device, tap: Tap, chance: np.random.Generator) -> None:
        self._site = site
        self._device = device
        self._tap = tap
        self._chance = chance
        self._moments: Sequence[Callable[[], None]] = (self._starting, self._piling_up, self._sending, self._sending)

    def run(self, number: int, look: Callable[[Flash], None]) -> None:
        moment = self._moments[number % len(self._moments)]
        nowhere = ("127.0.0.1", free_port())
        self._device.dut.link = nowhere if moment == self._piling_up else self._site.endpoint
        self._device.dut.start()
        look(self._device.flash())
        self._device.start(timeout_ms=TIMEOUT_MS, wait=False)
        moment()
        self._device.dut.kill()

    def _starting(self) -> None:
        time.sleep(self._chance.uniform(0.0, 0.6))

    def _piling_up(self) -> None:
        self._device.wait_until_up()
        time.sleep(self._chance.uniform(0.0, 2.0))

    def _sending(self) -> None:
        """Wait for some frames, so that a slow host cuts no earlier than a fast one."""
        wanted = len(self._tap.frames) + int(self._chance.integers(1, 13))
        self._site.wait(lambda: len(self._tap.frames) >= wanted, "the reports of this run", 60)
        time.sleep(self._chance.uniform(0.0, 0.2))


@pytest.mark.boards("mps2", "pico")
def test_power_cuts(
    board: str, site: BoardSite, open_board: Callable[..., Dut], tmp_path: Path, rng: np.random.Generator
) -> None:
    cuts = CUTS[board]
    dut = open_board(folder=tmp_path / "board")
    device = Device(dut, site.enrol(TRACES, interval_s=0.1, outbox=5000))
    device.provision()
    dut.kill()
    witness = Witness(site.profile.epsilon_q20)
    with Tap(site.endpoint, site.profile.width) as tap:
        cutter = Cutter(site, device, tap, rng)
        for number in range(cuts):
            cutter.run(number, witness.look)
        dut.link = site.endpoint
        dut.start()
        witness.look(device.flash())
        device.start(timeout_ms=TIMEOUT_MS)
        site.wait(lambda: set(witness.stored) <= set(site.accepted(device.label)), "the outbox of all runs", 90)
    dut.reset()
    witness.look(device.flash())

    # Enough happened for the test to be meaningful.
    assert witness.survivals >= cuts // 5
    assert len(site.accepted(device.label)) > cuts
    # On the wire, too, a number always came with the same bytes, those on flash.
    sent: dict[int, bytes] = {}
    for frame in tap.frames:
        assert sent.setdefault(NUMBER.of(frame), frame) == frame
    assert all(sent.get(number, frame) == frame for number, frame in witness.stored.items())
    assert set(site.verdicts()) <= {"accepted", "redelivered"}
    assert site.device_cause(device.label) is None
