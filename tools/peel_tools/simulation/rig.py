# SPDX-License-Identifier: MIT
"""A site whose devices are simulated: sessions of them, and the referee. For the demonstration and for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from peel_core import load_profile
from peel_gateway.fleet.folder import SIMULATION_FILE, Fleet
from peel_tools.servers.broker import AnyBroker, Broker
from peel_tools.servers.gateway import GatewayError
from peel_tools.servers.site import Site
from peel_tools.simulation.profiles import fleet_of, make_fleet
from peel_tools.simulation.publisher import BrokerAddress
from peel_tools.simulation.referee import Findings, judge
from peel_tools.simulation.runner import Progress
from peel_tools.simulation.session import Plan, Session

__all__ = ["Rig"]

_POLL_SECONDS = 0.3


class Rig(Site):
    """A site with simulated devices, and the truth about them.

    Parameters
    ----------
    numeric, categorical : int
        Devices with the greenhouse profile and with the vents profile; a fleet that is in the folder already is taken as it is.
    profiles : sequence of Path
        Profiles of one's own instead of these: all devices together are spread over them.
    persistent : bool
        Whether the broker keeps its sessions over a restart.
    embedded : bool, optional
        Which broker: see `peel_tools.servers.broker.Broker`.
    broker : AnyBroker, optional
        Another broker than these two; it is closed with the site.
    settings : mapping
        Further settings of the gateway by field name.
    """

    def __init__(
        self,
        folder: Path,
        *,
        numeric: int,
        categorical: int = 0,
        profiles: Sequence[Path] = (),
        persistent: bool = False,
        embedded: bool | None = None,
        broker: AnyBroker | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        home = folder / "fleet"
        if (home / "fleet.toml").exists():
            fleet = Fleet(home)
        elif profiles:
            fleet = fleet_of(home, "demo", profiles, _spread(numeric + categorical, profiles))
        else:
            fleet = make_fleet(home, greenhouse=numeric, vents=categorical)
        super().__init__(folder, fleet, broker or Broker(persistent=persistent, embedded=embedded))
        self.truth_path = fleet.folder / SIMULATION_FILE
        self.add_gateway(settings=settings)

    def session(self, plan: Plan, *, on_progress: Callable[[Progress], None] = lambda progress: None) -> Session:
        """Devices that report to this broker; the truth is continued from session to session."""
        address = BrokerAddress(host=self.broker.host, port=self.broker.port)
        return Session(self.fleet, address, self.truth_path, plan, on_progress=on_progress)

    def settled(self, seconds: float) -> Findings:
        """Wait until the gateway has heard of everything that was acknowledged, and compare; what it has by then otherwise."""
        deadline = time.monotonic() + seconds
        while not (findings := self.judged()).settled and time.monotonic() < deadline:
            if self.gateway.pid is None:
                raise GatewayError(f"the gateway has ended; end of its log:\n{self.gateway.log_tail()}")
            time.sleep(_POLL_SECONDS)
        return findings

    def judged(self) -> Findings:
        """Compare the gateway's books with the truth as they are now."""
        with self.gateway.store() as store:
            return judge(self.truth_path, store)


def _spread(devices: int, profiles: Sequence[Path]) -> dict[str, int]:
    """Devices per profile, as evenly as it goes."""
    names = [load_profile(path).name for path in profiles]
    return {
        name: devices * (place + 1) // len(names) - devices * place // len(names) for place, name in enumerate(names)
    }
