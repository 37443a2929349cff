# SPDX-License-Identifier: MIT
"""The gateway's wall clock is wrong: at its start, and while it runs."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from field import Field, SetClock, fake_clock
from helpers import climate_profile

from peel_tools.servers.gateway import GatewayProcess

DAY = 24 * 60 * 10
"""Numbers that such a device may take in a day."""


@pytest.fixture
def set_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetClock:
    return fake_clock(tmp_path, monkeypatch)


@pytest.fixture
def slow(field: Field) -> list[int]:
    """Devices of the field, enrolled a moment ago, whose quota is small; the field's reports are now theirs."""
    path = field.folder / "slow.toml"
    path.write_text(climate_profile("slow", quota=10, period=60))
    field.profile = field.fleet.adopt_profile(path)
    devices = [device.id for device in field.fleet.enrol("slow", count=2)]
    field._next |= dict.fromkeys(devices, 1)
    return devices


def flood_count(gateway: GatewayProcess) -> int:
    count: int = gateway.summary()["totals"]["verdicts"]["flood"]
    return count


@pytest.mark.parametrize(("jump", "beyond"), [("-90d", 45 * DAY), ("+90d", 135 * DAY)])
def test_a_jumping_clock(field: Field, slow: list[int], set_clock: SetClock, jump: str, beyond: int) -> None:
    """It jumps to and fro, and is wrong at a restart: who keeps to the quota counts; no jump is granted twice."""
    steady, greedy = slow
    gateway = field.new_gateway(screen_number_allowance=0).start()
    field.publish(field.reports(1, devices=[greedy]))
    for step, offset in enumerate(["+0d", jump, "+0d", jump], start=1):
        set_clock(offset)
        field.publish(field.reports(2, devices=[steady]))
        field.wait_accepted(gateway, 1 + 2 * step)
    assert gateway.stop() == 0
    set_clock("+0d")
    gateway.start()
    field.publish(field.reports(2, devices=[steady]))
    field.wait_accepted(gateway, 11)
    gateway.wait_for(lambda: gateway.summary()["health"] == [])
    field._next[greedy] = beyond
    field.publish(field.reports(1, devices=[greedy]))
    gateway.wait_for(lambda: flood_count(gateway) == 1)


def test_ten_days_off_and_up_again_in_the_wrong_decade(field: Field, slow: list[int], set_clock: SetClock) -> None:
    """The backlog of an honest device counts at once, and a flood is refused as soon as the clock is set."""
    honest, greedy = slow
    gateway = field.new_gateway(screen_number_allowance=0).start()
    field.publish(field.reports(2, devices=slow))
    field.wait_accepted(gateway, 2)
    _switch_off_and_on(gateway, set_clock, "-3650d")
    field._next[honest] = 10 * DAY - 300
    field.publish(field.reports(300, devices=[honest]))
    field.wait_accepted(gateway, 302)
    assert any(cause.startswith("clock: behind") for cause in gateway.summary()["health"])
    set_clock("+10d")
    field.publish(field.reports(20, devices=[honest]))
    field.wait_accepted(gateway, 322)
    gateway.wait_for(lambda: gateway.summary()["health"] == [])
    field._next[greedy] = 20 * DAY
    field.publish(field.reports(1, devices=[greedy]))
    gateway.wait_for(lambda: flood_count(gateway) == 1)
    assert gateway.summary()["totals"]["exposed"] == 1
    assert gateway.stop() == 0
    assert gateway.command("recount").returncode == 0


def test_a_clock_that_was_decades_ahead_is_believed_on_somebodys_word(
    field: Field, slow: list[int], set_clock: SetClock
) -> None:
    set_clock("+9000d")
    gateway = field.new_gateway().start()
    field.publish(field.reports(2, devices=slow))
    field.wait_accepted(gateway, 2)
    _switch_off_and_on(gateway, set_clock, "+0d")
    assert {_state(gateway, device) for device in slow} == {"silent"}, "not for as long as the clock was ahead"
    field.publish(field.reports(2, devices=slow))
    field.wait_accepted(gateway, 4)
    assert {_state(gateway, device) for device in slow} == {"active"}
    assert any(cause.startswith("clock: behind") for cause in gateway.summary()["health"])
    (before,) = json.loads(gateway.command("clock", "--json").stdout)["partitions"]
    (after,) = json.loads(gateway.command("clock", "--believe", "--json").stdout)["partitions"]
    assert before["time"] >= before["behind_until"] > after["time"]
    assert after["behind_until"] is None
    field.publish(field.reports(2, devices=slow))
    field.wait_accepted(gateway, 6)
    gateway.wait_for(lambda: gateway.summary()["health"] == [])
    assert "None" not in gateway.command("clock").stdout
    assert gateway.stop() == 0
    assert gateway.command("recount").returncode == 0


def _state(gateway: GatewayProcess, device: int) -> str:
    (row,) = [row for row in gateway.get("/api/devices")["items"] if int(row["device"], 16) == device]
    return str(row["state"])


def _switch_off_and_on(gateway: GatewayProcess, set_clock: SetClock, offset: str) -> None:
    """The machine comes up with another time. Its store then says that it was written before the machine was last started."""
    assert gateway.stop() == 0
    with sqlite3.connect(gateway.store_path) as connection:
        assert connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'boot'").rowcount == 1
    connection.close()
    set_clock(offset)
    gateway.start()
