# SPDX-License-Identifier: MIT
"""A whole system in one folder: fleet, broker, gateway process; sessions of simulated devices on it. For demonstration and tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.resources import as_file, files
from pathlib import Path
from types import TracebackType
from typing import Self

from peel_gateway.fleet.registry import Fleet
from peel_tools.broker import Broker
from peel_tools.gateway_process import GatewayError, GatewayProcess
from peel_tools.simulation.publisher import BrokerAddress
from peel_tools.simulation.referee import Findings, judge
from peel_tools.simulation.runner import Progress
from peel_tools.simulation.session import Plan, Session

__all__ = ["Rig"]

_FLEET_NAME = "demo"
_POLL_SECONDS = 0.3


class Rig:
    """Broker and gateway between `start` and `close`.

    Parameters
    ----------
    numeric, categorical : int
        Devices with the greenhouse profile and with the vents profile; a fleet that is in the folder already is taken as it is.
    persistent : bool
        Whether the broker keeps its sessions over a restart.
    settings : mapping
        Further settings of the gateway by field name.
    """

    def __init__(
        self,
        folder: Path,
        *,
        numeric: int,
        categorical: int = 0,
        persistent: bool = False,
        embedded: bool | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.truth_path = folder / "truth.sqlite"
        self.fleet = _fleet(folder / "fleet", numeric, categorical)
        self.broker = Broker(persistent=persistent, embedded=embedded)
        self.gateway = GatewayProcess(
            fleet=self.fleet.folder, folder=folder, broker_port=self.broker.port, settings=settings
        )

    def start(self) -> None:
        """Start broker and gateway."""
        self.broker.start()
        self.gateway.start()

    def close(self) -> None:
        """End both."""
        self.gateway.kill()
        self.broker.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def session(self, plan: Plan, *, on_progress: Callable[[Progress], None] = lambda progress: None) -> Session:
        """Devices that report to this broker; the truth is continued from session to session."""
        address = BrokerAddress(host=self.broker.host, port=self.broker.port)
        return Session(self.fleet, address, self.truth_path, plan, on_progress=on_progress)

    def settled(self, seconds: float) -> Findings:
        """Wait until the gateway has heard of everything that was acknowledged, and compare; what it has by then otherwise."""
        deadline = time.monotonic() + seconds
        while True:
            findings = judge(self.truth_path, self.gateway.store_path)
            if findings.settled or time.monotonic() > deadline:
                return findings
            if self.gateway.pid is None:
                raise GatewayError(f"the gateway has ended; end of its log:\n{self.gateway.log_tail()}")
            time.sleep(_POLL_SECONDS)


def _fleet(folder: Path, numeric: int, categorical: int) -> Fleet:
    if (folder / "fleet.toml").exists():
        return Fleet(folder)
    with as_file(files("peel_tools.simulation.profiles")) as profiles:
        fleet = Fleet.create(folder, _FLEET_NAME, sorted(profiles.glob("*.toml")))
    for profile, count in (("greenhouse", numeric), ("vents", categorical)):
        if count:
            fleet.add(profile, count=count)
    return fleet
