# SPDX-License-Identifier: MIT
"""A site: a fleet, a real broker and real gateway processes in one folder, for the demonstration and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from peel_gateway.fleet.folder import Fleet
from peel_tools.servers.broker import AnyBroker
from peel_tools.servers.gateway import GatewayError, GatewayProcess
from peel_tools.servers.process import Server

__all__ = ["Site"]


class Site(Server):
    """A broker and the gateways that were added to it, all running between `start` and `close`.

    Subclasses add devices: simulated ones, boards, or bare encoders.
    """

    def __init__(self, folder: Path, fleet: Fleet, broker: AnyBroker) -> None:
        self.folder = folder
        self.fleet = fleet
        self.broker = broker
        self._gateways: list[GatewayProcess] = []

    def add_gateway(self, name: str = "", settings: Mapping[str, object] | None = None) -> GatewayProcess:
        """Add a gateway for this fleet and broker without starting it. Its files go into the folder of this name."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        gateway = GatewayProcess(
            fleet=self.fleet.folder, folder=folder, broker_port=self.broker.port, settings=settings
        )
        self._gateways.append(gateway)
        return gateway

    @property
    def gateway(self) -> GatewayProcess:
        """The only gateway."""
        (only,) = self._gateways
        return only

    def start(self) -> None:
        """Start the broker, then the gateways."""
        self.broker.start()
        for gateway in self._gateways:
            gateway.start()

    def close(self) -> None:
        """Kill everything."""
        for gateway in self._gateways:
            gateway.kill()
        self.broker.close()

    @property
    def endpoint(self) -> tuple[str, int]:
        """The broker's address."""
        return self.broker.host, self.broker.port

    def ask(self, path: str) -> Any:
        """Return a response of the gateway's API. Raise GatewayError if the request fails."""
        answer = self.gateway.ask(path)
        if answer is None:
            raise GatewayError(f"the gateway does not answer; end of its log:\n{self.gateway.log_tail()}")
        return answer

    def estimates(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the API's estimates by profile and name."""
        items = self.ask("/api/estimates")["items"]
        return {(item["profile"], row["name"]): row for item in items for row in item["estimates"]}

    def verdicts(self) -> dict[str, int]:
        """Return the number of reports by verdict, without verdicts of no report."""
        with self.gateway.store() as store:
            return {verdict.label: count for verdict, count in store.counts().verdicts.items() if count}

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
        """Wait until a condition holds. On timeout the error has `what` and the gateway's verdicts."""
        try:
            self.gateway.wait_for(condition, seconds, what)
        except GatewayError as error:
            raise GatewayError(f"{error}\nverdicts so far: {self.verdicts()}") from None

    def wait_for_accepted(self, count: int, seconds: float) -> None:
        """Wait until the gateway has accepted this many reports."""
        self.wait(lambda: self.verdicts().get("accepted", 0) >= count, f"acceptance of {count} reports", seconds)
