# SPDX-License-Identifier: MIT
"""A site: a fleet, a real broker and a real gateway process in one folder, and what the gateway's database says."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from peel_core import Profile
from peel_gateway.fleet.bundle import make_bundles
from peel_gateway.fleet.registry import Fleet
from peel_gateway.model.verdict import Verdict
from peel_hil.duts import Endpoint
from peel_tools.broker import Broker
from peel_tools.gateway_process import GatewayProcess

__all__ = ["Exposed", "Site"]

_FLEET = "lab"
_PROFILE = "climate"
_POLL_SECONDS = 0.1
_SETTINGS = {"batch_seconds": 0.02, "fleet_reload_seconds": 0.2}

_PROFILE_TEXT = """\
name = "{name}"
mechanism = "harmony"
epsilon = {epsilon}
width = 48
seed = 1
quota = {quota}
period = {period}

[[attribute]]
name = "temperature"
unit = "degC"
low = -10
high = 50

[[attribute]]
name = "humidity"
unit = "%"
low = 0
high = 100
"""


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """A refused piece as the gateway keeps it."""

    verdict: str
    device: int
    number: int
    raw: bytes


class Site:
    """Broker and gateway between `start` and `close`.

    Parameters
    ----------
    quota, period : int
        Report numbers per so many seconds. With a long period a device makes a known number of reports and then rests.
    """

    def __init__(self, folder: Path, *, epsilon: float, quota: int, period: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        toml = folder / f"{_PROFILE}.toml"
        toml.write_text(_PROFILE_TEXT.format(name=_PROFILE, epsilon=epsilon, quota=quota, period=period))
        self.fleet = Fleet.create(folder / "fleet", _FLEET, [toml])
        broker_folder = folder / "broker"
        broker_folder.mkdir()
        self.broker = Broker(folder=broker_folder, persistent=True, embedded=False)
        self.gateway = GatewayProcess(
            fleet=self.fleet.folder, folder=folder, broker_port=self.broker.port, settings=_SETTINGS
        )

    def __enter__(self) -> Self:
        try:
            self.broker.start()
            self.gateway.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End both."""
        self.gateway.kill()
        self.broker.close()

    @property
    def endpoint(self) -> Endpoint:
        """Where the broker listens."""
        return self.broker.host, self.broker.port

    @property
    def profile(self) -> Profile:
        """What the devices of this site report."""
        return self.fleet.profiles()[_PROFILE]

    def enrol(self, traces: Mapping[str, Sequence[float]], **settings: object) -> dict[str, Any]:
        """Register one more device that plays traces over a UART, and wait until the gateway knows it. Returns its bundle."""
        sensors = {name: {"kind": "trace", "values": list(values)} for name, values in traces.items()}
        mqtt = {
            "host": self.broker.host,
            "port": self.broker.port,
        }  # for show: the link is where the board's UART leads
        (device,) = self.fleet.add(_PROFILE)
        template = {"transport": "uart", "mqtt": mqtt, "sensors": sensors, **settings}
        (bundle,) = make_bundles(self.fleet, [device], template)
        self.wait(
            lambda: len((self.gateway.ask("/api/devices") or {"items": []})["items"]) >= device.id, "the registry"
        )
        return bundle

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
        """Wait until a condition holds; the error says what did not come and what the gateway has."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{what} did not come within {seconds:g} s; verdicts so far: {self.verdicts()}\n{self.gateway.log_tail()}"
                )
            time.sleep(_POLL_SECONDS)

    def wait_for_accepted(self, count: int, seconds: float) -> None:
        """Wait until the gateway has accepted this many reports."""
        self.wait(lambda: self.verdicts().get("accepted", 0) >= count, f"acceptance of {count} reports", seconds)

    def verdicts(self) -> dict[str, int]:
        """Reports by verdict; verdicts that nobody got are absent."""
        rows = self._rows("SELECT key, value FROM counter WHERE kind = 'verdict' AND value")
        return {Verdict(key).label: value for key, value in rows}

    def accepted(self, device: str) -> list[int]:
        """The accepted numbers of a device (its label), ascending."""
        query = "SELECT number FROM log WHERE device = ? AND verdict = ? ORDER BY number"
        return [number for (number,) in self._rows(query, int(device, 16), int(Verdict.ACCEPTED))]

    def exposures(self) -> list[Exposed]:
        """Everything that was refused, in order."""
        rows = self._rows("SELECT verdict, device, number, raw FROM exposure ORDER BY id")
        return [
            Exposed(verdict=Verdict(verdict).label, device=device, number=number, raw=raw)
            for verdict, device, number, raw in rows
        ]

    def device_cause(self, device: str) -> str | None:
        """Why a device was exposed; None when it was not."""
        rows = self._rows("SELECT cause FROM device WHERE device = ?", int(device, 16))
        return Verdict(rows[0][0]).label if rows and rows[0][0] else None

    def estimates(self) -> dict[str, dict[str, Any]]:
        """The published estimates by attribute, as the API gives them."""
        answer = self.gateway.ask("/api/estimates")
        if answer is None:
            raise ConnectionError(f"the gateway gives no estimates; end of its log:\n{self.gateway.log_tail()}")
        return {row["name"]: row for item in answer["items"] for row in item["estimates"]}

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"{self.gateway.store_path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute(query, values).fetchall()
