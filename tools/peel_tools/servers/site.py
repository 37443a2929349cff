# SPDX-License-Identifier: MIT
"""A site: a fleet, a real broker and real gateway processes in one folder. For the demonstration, for tests, for boards in the loop."""

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
    """Between `start` and `close` the broker runs, and with it the gateways that were added before.

    Whoever has devices of a kind (simulated ones, boards, bare encoders) derives a site with them.
    """

    def __init__(self, folder: Path, fleet: Fleet, broker: AnyBroker) -> None:
        self.folder = folder
        self.fleet = fleet
        self.broker = broker
        self._gateways: list[GatewayProcess] = []

    def add_gateway(self, name: str = "", settings: Mapping[str, object] | None = None) -> GatewayProcess:
        """One more gateway for this fleet on this broker, not started yet; its files go into the folder of this name."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        gateway = GatewayProcess(
            fleet=self.fleet.folder, folder=folder, broker_port=self.broker.port, settings=settings
        )
        self._gateways.append(gateway)
        return gateway

    @property
    def gateway(self) -> GatewayProcess:
        """The gateway, where there is one."""
        (only,) = self._gateways
        return only

    def start(self) -> None:
        """Start the broker, then the gateways."""
        self.broker.start()
        for gateway in self._gateways:
            gateway.start()

    def close(self) -> None:
        """End everything at once."""
        for gateway in self._gateways:
            gateway.kill()
        self.broker.close()

    @property
    def endpoint(self) -> tuple[str, int]:
        """Where the broker listens."""
        return self.broker.host, self.broker.port

    def ask(self, path: str) -> Any:
        """Return the answer of the gateway's API; GatewayError where there is none."""
        answer = self.gateway.ask(path)
        if answer is None:
            raise GatewayError(f"the gateway does not answer; end of its log:\n{self.gateway.log_tail()}")
        return answer

    def estimates(self) -> dict[tuple[str, str], dict[str, Any]]:
        """The published estimates, as the API gives them, by profile and name."""
        items = self.ask("/api/estimates")["items"]
        return {(item["profile"], row["name"]): row for item in items for row in item["estimates"]}

    def verdicts(self) -> dict[str, int]:
        """Reports by verdict; verdicts that nobody got are absent."""
        with self.gateway.store() as store:
            return {verdict.label: count for verdict, count in store.counts().verdicts.items() if count}

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
        """Wait until a condition holds; the error says what did not come, and what the gateway has."""
        try:
            self.gateway.wait_for(condition, seconds, what)
        except GatewayError as error:
            raise GatewayError(f"{error}\nverdicts so far: {self.verdicts()}") from None

    def wait_for_accepted(self, count: int, seconds: float) -> None:
        """Wait until the gateway has accepted this many reports."""
        self.wait(lambda: self.verdicts().get("accepted", 0) >= count, f"acceptance of {count} reports", seconds)
