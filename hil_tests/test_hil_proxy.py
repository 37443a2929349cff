# SPDX-License-Identifier: MIT
"""An attacker between board and broker: altered frames are exposed for the right cause, all others arrive once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from peel_hil.device import Device
from peel_hil.duts import Dut
from peel_hil.proxy import Proxy
from peel_hil.site import TRACES, BoardSite, climate
from peel_hil.tampering import TRICKS, Tamperer

QUOTA = 2048
TIMEOUT_MS = 1500
RESEND_MS = 1500


@pytest.fixture
def site(tmp_path: Path) -> Iterator[BoardSite]:
    with BoardSite(tmp_path / "site", climate(epsilon=1.0, quota=QUOTA, period=QUOTA * 3600)) as running:
        yield running


@pytest.mark.boards("mps2")
def test_every_altered_report_is_exposed_and_every_other_counts_once(
    site: BoardSite, open_board: Callable[..., Dut], tmp_path: Path, seed: int
) -> None:
    tamperer = Tamperer(width=site.profile.width, every=5, seed=seed)
    with Proxy(site.endpoint, tamperer) as proxy:
        dut = open_board(link=proxy.endpoint, folder=tmp_path / "board")
        device = Device(dut, site.enrol(TRACES, interval_s=0.01, confirm="broker"))
        device.provision()
        device.start(timeout_ms=TIMEOUT_MS)
        record = tamperer.record
        site.wait(lambda: len(record.acknowledged) == site.at_once, "the last report", 240)
        site.wait(
            lambda: sum(site.verdicts().values()) >= len(record.arrivals) + len(record.verdicts), "the last piece"
        )
        dut.reset()
        flash = device.flash()
        assert proxy.errors == []
    # On the line: every trick was played, and all reports of the device passed.
    assert set(record.tricks) == set(TRICKS)
    assert flash.next_number == site.at_once + 1
    assert set(flash.frames) <= record.acknowledged  # the reset may have come just before a removal
    assert flash.dropped == 0
    # Each altered frame was refused and kept as evidence, for its own cause.
    assert {exposed.raw: exposed.verdict.label for exposed in site.exposures()} == record.verdicts
    # All other reports count exactly once, however often they came. A destroyed one may have arrived before, and been replayed.
    honest = set(range(1, site.at_once + 1)) - (record.destroyed - set(record.arrivals))
    assert site.accepted(device.label) == sorted(honest)
    expected = Counter(record.verdicts.values())
    expected["accepted"] = len(honest)
    expected["redelivered"] = len(record.arrivals) - len(honest)
    assert site.verdicts() == dict(expected)
    # The device is not blamed for the network.
    assert site.device_cause(device.label) is None


@pytest.mark.boards("mps2")
def test_what_was_destroyed_comes_again_where_the_gateway_confirms(
    site: BoardSite, open_board: Callable[..., Dut], tmp_path: Path, seed: int
) -> None:
    tamperer = Tamperer(width=site.profile.width, every=5, seed=seed)
    with Proxy(site.endpoint, tamperer) as proxy:
        dut = open_board(link=proxy.endpoint, folder=tmp_path / "board")
        device = Device(dut, site.enrol(TRACES, interval_s=0.01, outbox=500))
        device.provision()
        device.start(timeout_ms=TIMEOUT_MS, resend_ms=RESEND_MS)
        everything = list(range(1, site.at_once + 1))
        site.wait(lambda: site.accepted(device.label) == everything, "every report, destroyed or not", 300)
        assert proxy.errors == []
    assert tamperer.record.destroyed, "some never arrived the first time"
    assert {exposed.raw for exposed in site.exposures()} <= set(tamperer.record.verdicts)
    assert site.device_cause(device.label) is None
