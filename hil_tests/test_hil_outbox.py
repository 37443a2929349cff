# SPDX-License-Identifier: MIT
"""The broker goes away: the outbox fills, drops its oldest frames, counts them, and drains in order when the broker is back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from peel_core.frame import NUMBER
from peel_hil.device import Device
from peel_hil.duts import Dut
from peel_hil.listener import Tap
from peel_hil.site import TRACES, BoardSite

OUTBOX = 12
TIMEOUT_MS = 1500


@pytest.mark.boards("mps2")
def test_outbox_fills_drops_and_drains_in_order(
    site: BoardSite, open_board: Callable[..., Dut], tmp_path: Path
) -> None:
    dut = open_board(link=site.endpoint, folder=tmp_path / "board")
    device = Device(dut, site.enrol(TRACES, interval_s=0.05, outbox=OUTBOX, confirm="broker"))
    device.provision()
    device.start(timeout_ms=TIMEOUT_MS)
    site.wait_for_accepted(10, 30)

    site.broker.stop()
    # Before the second and third attempt (at least 1 s and 2 s) the device makes more reports than the outbox holds.
    for _ in range(3):
        dut.expect("link fault", 30)
    site.broker.start()
    with Tap(site.endpoint, site.profile.width) as tap:
        site.wait(lambda: len(tap.frames) >= 5 * OUTBOX, "the drained outbox", 60)
        statuses = [json.loads(payload) for payload in tap.statuses(device.label)]
    numbers = [NUMBER.of(frame) for frame in tap.frames]
    dut.reset()
    flash = device.flash()
    site.wait(lambda: set(numbers) <= set(site.accepted(device.label)), "the last report")
    accepted = site.accepted(device.label)
    missing = sorted(set(range(1, accepted[-1] + 1)) - set(accepted))

    # The oldest were dropped, in one run, directly before those that the outbox still held.
    assert len(missing) > OUTBOX
    assert missing == list(range(missing[0], missing[-1] + 1))
    assert flash.dropped - len(missing) in (0, 1)  # one dropped frame may have arrived, with its acknowledgement lost
    # The device published this when it came back.
    birth = next(status for status in reversed(statuses) if status["state"] == "online")
    assert birth["dropped"] == flash.dropped
    assert birth["faults"] >= 3
    # The kept frames came in order, oldest first, and so did all later ones.
    assert numbers == list(range(missing[-1] + 1, missing[-1] + 1 + len(numbers)))
    verdicts = site.verdicts()
    assert verdicts.pop("accepted") == len(accepted)
    assert set(verdicts) <= {"redelivered"}  # the report in transit when the broker went
    assert site.device_cause(device.label) is None
