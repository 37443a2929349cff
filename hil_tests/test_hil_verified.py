# SPDX-License-Identifier: MIT
"""Verified coins on emulated boards: commitments, audits, challenges and openings over a real broker, through power cuts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import read_log
from peel_hil.device import Device
from peel_hil.duts import Dut
from peel_hil.site import TRACES, BoardSite, climate

FEW, MORE = 20, 45
RESEND_MS = 2000
VERIFIED = climate(epsilon=1.0, quota=1_000, period=60).replace("verify = false", "offline = 1\nbucket = 2")


@pytest.mark.boards("mps2", "pico")
def test_reports_count_through_a_power_cut(open_board: Callable[..., Dut], tmp_path: Path) -> None:
    with BoardSite(tmp_path / "site", VERIFIED, store_bucket_seconds=2) as site:
        dut = open_board(link=site.endpoint, folder=tmp_path / "board")
        device = Device(dut, site.enrol(TRACES, interval_s=0.2))
        device.provision()
        device.start(resend_ms=RESEND_MS)
        site.wait_for_accepted(FEW, 240)
        dut.kill()
        dut.start()
        device.start(resend_ms=RESEND_MS)
        site.wait_for_accepted(MORE, 240)
        assert site.exposures() == []
        with site.gateway.store() as store:
            log = read_log(store, 1)
        assert set(log.verdict.tolist()) - {int(Verdict.HELD)} == {int(Verdict.ACCEPTED), int(Verdict.REVEALED)}
        assert len(set(log.number.tolist())) == len(log), "no number twice"
        assert site.gateway.peel("gateway", "recount").returncode == 0
