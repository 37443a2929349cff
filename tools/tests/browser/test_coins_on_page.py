# SPDX-License-Identifier: MIT
"""The page of a fleet with verified coins: reports that wait, and a device that does not answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from browser_support import OpenPage
from coin_desk import BUCKET, HELD, CoinDesk
from field import Field
from playwright.sync_api import expect

WAITS = f"{HELD} reports wait for their coins to be opened. 1 device is stalled."
COUNTS_LATER = "one time bucket (5\u202fmin) and a round trip after it arrived"


def test_the_page_says_what_waits_for_coins(
    field: Field, open_page: OpenPage, tmp_path: Path, rng: np.random.Generator
) -> None:
    folder = tmp_path / "coins"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        desk = CoinDesk(folder, rng, patch, ago=5 * BUCKET)
        desk.stall()
        desk.store.close()
    gateway = field.new_gateway("coins", fleet_folder=folder / "fleet", store_path=desk.path).start()
    page = open_page(gateway.url)
    expect(page.locator("#lede")).to_contain_text(WAITS)
    page.locator("#profile").select_option("coins")
    expect(page.locator("#estimates-legend")).to_be_visible()
    expect(page.locator("#estimates-legend")).to_contain_text(COUNTS_LATER)
    row = page.locator("#devices-table tbody tr").first
    expect(row).to_contain_text("stalled")
    expect(page.get_by_role("columnheader", name="Held")).to_be_visible()
    expect(row.locator("td").last).to_have_text(str(HELD))
    row.get_by_role("button").click()
    expect(page.locator("#devices-table .opened")).to_contain_text("peel gateway release 00000001 --reason TEXT")
    page.locator("#profile").select_option("plain")
    expect(page.locator("#devices-table tbody tr")).to_have_count(1)
    expect(page.get_by_role("columnheader", name="Held")).to_be_hidden()
    expect(page.locator("#estimates-legend")).not_to_contain_text("round trip")
    assert gateway.command("release", "1", "--reason", "lost its flash").returncode == 0
    expect(page.locator("#lede")).not_to_contain_text("wait for")
