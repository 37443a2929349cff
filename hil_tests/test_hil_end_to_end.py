# SPDX-License-Identifier: MIT
"""A device from boot to estimate: the board's own firmware, its link, a real broker, a real gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from peel_hil.device import Device, Flash
from peel_hil.duts import Dut
from peel_hil.duts.pico import PicoDut
from peel_hil.site import BoardSite, climate

# With such a quota a device has tokens for about a tenth of it and then waits for an hour: the count of its reports is known.
QUOTAS = {"mps2": 2048, "pico": 920}
EPSILON = 4.0
TRACES = {"temperature": [38.0, 44.0, 30.0, 41.0, 35.0], "humidity": [12.0, 30.0, 18.0, 25.0]}
STRETCH = 3.5
"""From 95% to one miss in 10^11: these intervals must cover in every run, not in 19 of 20."""


OpenBoard = Callable[..., Dut]


class UnattendedPico(PicoDut):
    """A Pico without console input at power-on, which starts its main.py."""

    def boot(self) -> None:
        """Do nothing: no input is typed."""


def check_everything_arrived(site: BoardSite, device: Device, flash: Flash) -> None:
    """Check that the device's flash, the gateway's log and the gateway's counters agree."""
    reports = site.at_once
    assert flash.next_number == reports + 1
    assert flash.spent_q20 == reports * site.profile.epsilon_q20
    # Frames still on flash were stored, and not confirmed yet when the power was cut.
    assert set(flash.frames) <= set(site.accepted(device.label))
    assert flash.dropped == 0
    assert site.accepted(device.label) == list(range(1, reports + 1))
    verdicts = site.verdicts()
    assert verdicts.pop("accepted") == reports
    assert set(verdicts) <= {"redelivered"}  # a slow acknowledgement makes a device send again
    assert site.device_cause(device.label) is None


def check_estimates(site: BoardSite) -> None:
    """Check that each interval covers the mean of its trace, and is narrow."""
    ranges = {attribute.name: (attribute.low, attribute.high) for attribute in site.profile.attributes}
    estimates = site.estimates()
    assert sum(row["n"] for row in estimates.values()) == site.at_once
    for name, values in TRACES.items():
        row, mean = estimates[site.profile.name, name], sum(values) / len(values)
        low, high = ranges[name]
        assert row["high"] - row["low"] < (high - low) / 2
        assert row["value"] - STRETCH * (row["value"] - row["low"]) <= mean
        assert mean <= row["value"] + STRETCH * (row["high"] - row["value"])


@pytest.fixture
def site(board: str, tmp_path: Path) -> Iterator[BoardSite]:
    quota = QUOTAS[board]
    with BoardSite(tmp_path / "site", climate(epsilon=EPSILON, quota=quota, period=quota * 3600)) as running:
        yield running


@pytest.mark.boards("mps2")
def test_cortex_m3(site: BoardSite, open_board: OpenBoard, tmp_path: Path) -> None:
    dut = open_board(link=site.endpoint, folder=tmp_path / "board")
    device = Device(dut, site.enrol(TRACES, interval_s=0.01))
    device.provision()
    device.start()
    site.wait_for_accepted(site.at_once, 180)
    dut.reset()
    check_everything_arrived(site, device, device.flash())
    check_estimates(site)


@pytest.mark.boards("pico")
def test_pico_unattended(site: BoardSite, open_board: OpenBoard, tmp_path: Path) -> None:
    """The Pico starts at power-on: main.py runs without console input."""
    dut = open_board(folder=tmp_path / "board")
    bundle = site.enrol(TRACES, interval_s=0.01)
    Device(dut, bundle).provision(autostart=True)
    dut.kill()
    with UnattendedPico(tmp_path / "board", site.endpoint) as pico:
        pico.start()
        device = Device(pico, bundle)
        device.wait_until_up()
        site.wait_for_accepted(site.at_once, 240)
        check_everything_arrived(site, device, device.stop_and_read())
    check_estimates(site)
