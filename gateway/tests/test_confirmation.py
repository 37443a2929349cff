# SPDX-License-Identifier: MIT
"""Brokers lose what they have acknowledged. Devices that wait for the gateway's receipts lose nothing by it, and nothing counts twice.

Each loss is also shown with devices that are content with the broker's word: there it is real.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from peel_tools.servers.broker import find_mosquitto
from peel_tools.simulation.session import Plan, Session, SimulatedSite

PATIENCE = 60
REPORTS = 2000

pytestmark = pytest.mark.skipif(find_mosquitto() is None, reason="mosquitto is not installed")

Loss = Callable[[SimulatedSite, Session], None]


def killed_broker(rig: SimulatedSite, session: Session) -> None:
    """SIGKILL while it holds reports for a gateway that is away: what it had not saved is gone."""
    _half_is_left_to_the_broker(rig, session)
    rig.broker.kill()


def deleted_persistence(rig: SimulatedSite, session: Session) -> None:
    """It stops in order, and its file is gone when it comes back: with it the gateway's session."""
    _half_is_left_to_the_broker(rig, session)
    rig.broker.stop()
    (rig.broker.folder / "mosquitto.db").unlink()


def _half_is_left_to_the_broker(rig: SimulatedSite, session: Session) -> None:
    rig.gateway.start()
    session.simulation.run(reports=REPORTS // 2)
    rig.gateway.stop()
    session.simulation.run(reports=REPORTS // 2)
    assert session.simulation.drain(PATIENCE)


def before_the_first_connection(rig: SimulatedSite, session: Session) -> None:
    """The gateway has never been there: the broker takes reports, and has nobody to keep them for."""
    session.simulation.run(reports=REPORTS)
    assert session.simulation.drain(PATIENCE)


LOSSES = (killed_broker, deleted_persistence, before_the_first_connection)


@pytest.mark.parametrize(
    ("loss", "confirm"),
    # Whether a broker that is killed had just saved everything is chance: only those that forget must lose.
    [*((loss, "gateway") for loss in LOSSES), *((loss, "broker") for loss in LOSSES if loss is not killed_broker)],
)
def test_what_a_broker_loses(tmp_path: Path, loss: Loss, confirm: str) -> None:
    settings = {"mqtt_receipt_seconds": 0.5, "batch_seconds": 0.05}
    with closing(SimulatedSite(tmp_path, numeric=40, persistent=True, settings=settings)) as rig:
        rig.broker.start()
        plan = Plan(rate=4000, seed=11, confirm=confirm, resend_seconds=2.0, burst=2)
        with rig.session(plan) as session:
            loss(rig, session)
            rig.broker.start()
            rig.gateway.start()
            session.simulation.run(reports=100)
            assert session.simulation.drain(PATIENCE)
            assert session.simulation.confirm(PATIENCE)
            resent = session.simulation.progress.resent
        found = rig.settled(PATIENCE if confirm == "gateway" else 3)
        assert (found.double_counted, found.altered, found.honest_devices_exposed) == (0, 0, 0)
        assert found.honest >= REPORTS + 100
        if confirm == "gateway":
            assert found.lost == 0
            assert resent > 0 or loss is killed_broker
            assert found.accepted == found.honest
        else:
            assert found.lost > 0, "a device that believes the broker loses these for good"
        assert rig.gateway.stop() == 0
        assert rig.gateway.command("recount").returncode == 0
