# SPDX-License-Identifier: MIT
"""A database file that is moved, replaced or deleted under a running gateway: receipts stop, nothing acknowledged is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from field import Field

from peel_core.topics import fleet_topic
from peel_gateway.exits import Exit
from peel_hil.listener import Listener
from peel_tools.servers.gateway import GatewayProcess

EARLY, LATE = range(1, 11), range(11, 21)


@pytest.fixture
def gateway(field: Field) -> GatewayProcess:
    """A gateway that sends receipts at once."""
    return field.new_gateway(mqtt_receipt_seconds=0).start()


def _stalled(gateway: GatewayProcess) -> None:
    """Wait until the gateway has tried to store what came, and says why it cannot."""
    gateway.wait_for(lambda: "store failing" in gateway.log_path.read_text())
    assert gateway.ask("/healthz") is None, "503"
    (cause,) = [cause for cause in gateway.summary()["health"] if "peel.sqlite" in cause][:1]
    assert "was moved, replaced or deleted" in cause


@pytest.mark.parametrize("end", ["", "-wal"])
def test_a_file_that_is_moved_away_stops_receipts_until_it_is_back(
    field: Field, gateway: GatewayProcess, end: str
) -> None:
    early, late = field.reports(40, devices=EARLY), field.reports(40, devices=LATE)
    with Listener((field.broker.host, field.broker.port), fleet_topic(field.fleet.name, "+", "+", "receipt")) as told:
        field.publish(early)
        field.wait_accepted(gateway, 40)
        gateway.wait_for(lambda: len(_told(told)) == len(EARLY))
        file = gateway.store_path.with_name(gateway.store_path.name + end)
        aside = file.with_name("aside")
        file.rename(aside)
        field.publish(late)
        _stalled(gateway)
        assert _told(told) == {f"{device:08x}" for device in EARLY}
        assert gateway.summary()["inbox"]["pending"] == len(late), "nothing is acknowledged"
        aside.rename(file)
        gateway.wait_for(lambda: len(_told(told)) == len(EARLY) + len(LATE))
    assert gateway.stop() == Exit.DONE
    field.audit(gateway, early + late)


def _told(listener: Listener) -> set[str]:
    return {topic.split("/")[-2] for topic, _ in listener.messages}


@pytest.mark.parametrize("how", ["replaced", "deleted"])
def test_what_a_lost_file_held_is_saved_when_the_gateway_stops(
    field: Field, gateway: GatewayProcess, tmp_path: Path, how: str
) -> None:
    early, late = field.reports(40, devices=EARLY), field.reports(40, devices=LATE)
    copy = tmp_path / "copy.sqlite"
    assert gateway.command("backup", str(copy)).returncode == 0
    field.publish(early)
    field.wait_accepted(gateway, 40)
    if how == "replaced":
        copy.replace(gateway.store_path)
        before = gateway.store_path.read_bytes()
        done = gateway.command("recount")
        assert (done.returncode, "was moved, replaced or deleted" in done.stderr) == (Exit.MISSING, True)
        assert gateway.store_path.read_bytes() == before, "nothing of the former file was written into it"
    else:
        gateway.store_path.unlink()
    field.publish(late)
    _stalled(gateway)
    assert gateway.stop() == Exit.UNSTORED
    (saved,) = gateway.store_path.parent.glob("peel.sqlite.saved-*")
    assert str(saved) in gateway.log_path.read_text()
    assert gateway.command("restore", str(saved)).returncode == 0
    gateway.start()
    field.wait_accepted(gateway, 80)
    assert gateway.stop() == Exit.DONE
    field.audit(gateway, early + late)


def test_an_idle_gateway_says_it_too(gateway: GatewayProcess) -> None:
    gateway.store_path.rename(gateway.store_path.with_name("aside"))
    assert gateway.ask("/healthz") is None, "503"
    assert "was moved, replaced or deleted" in " ".join(gateway.summary()["health"])
