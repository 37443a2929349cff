# SPDX-License-Identifier: MIT
"""Rule poisoning: the first report of a device with other odds reveals it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from peel_hil.device import Device
from peel_hil.duts import Dut
from peel_hil.site import TRACES, BoardSite, climate

QUOTA = 640


@pytest.fixture
def site(tmp_path: Path) -> Iterator[BoardSite]:
    with BoardSite(tmp_path / "site", climate(epsilon=1.0, quota=QUOTA, period=QUOTA * 3600)) as running:
        yield running


def run(dut: Dut, bundle: dict[str, object]) -> Device:
    device = Device(dut, bundle)
    device.provision()
    device.start()
    return device


def figures(site: BoardSite) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the estimates, without the time to their precision, which changes."""
    return {
        key: {name: value for name, value in row.items() if name != "seconds_missing"}
        for key, row in site.estimates().items()
    }


@pytest.mark.boards("mps2", "pico")
def test_edited_odds_are_exposed_from_the_first_report(
    site: BoardSite, open_board: Callable[..., Dut], tmp_path: Path
) -> None:
    honest = run(open_board(link=site.endpoint, folder=tmp_path / "honest"), site.enrol(TRACES, interval_s=0.01))
    site.wait_for_accepted(site.at_once, 180)
    honest.dut.kill()
    before = figures(site)

    edited = deepcopy(site.enrol(TRACES, interval_s=0.01))
    for attribute in edited["profile"]["attributes"]:
        attribute["keep"] *= 4  # the profile's id stays, so the device claims to follow it
    poisoned = run(open_board(link=site.endpoint, folder=tmp_path / "poisoned"), edited)
    site.wait(lambda: site.verdicts().get("rule", 0) >= site.at_once, "the poisoned reports", 180)
    poisoned.dut.kill()

    exposed = site.exposures()
    assert [(each.verdict.label, each.device, each.number) for each in exposed] == [
        ("rule", int(poisoned.label, 16), number) for number in range(1, site.at_once + 1)
    ]
    assert site.device_cause(poisoned.label) == "rule"
    assert site.accepted(poisoned.label) == []
    assert site.verdicts() == {"accepted": site.at_once, "rule": site.at_once}
    # The fleet's estimates are unchanged, and so is the standing of the honest device.
    assert figures(site) == before
    assert site.device_cause(honest.label) is None
    assert site.accepted(honest.label) == list(range(1, site.at_once + 1))
