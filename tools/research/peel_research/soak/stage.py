# SPDX-License-Identifier: MIT
"""Everything that a soak is about: broker, gateway, lines between them and devices, boards and a simulated fleet."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_research.soak.boards import Bench, SoakBoard
from peel_research.soak.clock import WrongClock
from peel_research.soak.model import Model
from peel_research.soak.stores import STORES
from peel_research.soak.weather import Weather
from peel_tools.flashing.device_files import find_sources
from peel_tools.servers.broker import BROKERS
from peel_tools.servers.gateway import GatewayProcess
from peel_tools.simulation.publisher import BrokerAddress
from peel_tools.simulation.session import Plan, Session, make_fleet

__all__ = ["Crowd", "Stage"]

_PROFILES = {True: "room", False: "greenhouse"}
"""By whether coins are verified."""
_ATTACKERS = {"forgery": 0.005, "tampering": 0.005, "replay": 0.01, "budget": 0.02, "encoder": 0.02}
_COIN_ATTACKERS = {
    True: {"malformed_table": 0.02, "wrong_opening": 0.02},
    False: {"stuck": 0.05},
}
_SETTINGS: Mapping[str, object] = {
    "batch_seconds": 0.05,
    "fleet_reload_seconds": 0.2,
    "store_lock_seconds": 0.5,
    "mqtt_receipt_seconds": 1.0,
    "store_bucket_seconds": 5,
    "quarantine_pieces": 100_000,  # what is refused is evidence here, and none of it may go
}
_RESEND_SECONDS = 2.0
_START_SECONDS = 60.0


class Crowd:
    """The simulated fleet, attackers among it, in a thread of its own: its truth file wants one."""

    def __init__(self, fleet: Fleet, address: BrokerAddress, truth: Path, plan: Plan) -> None:
        self._making = (fleet, address, truth, plan)
        self._ready = threading.Event()
        self._session: Session | None = None
        self._drain_seconds = 0.0
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Connect, and begin to report. With verified coins, numbers are approved before this returns."""
        self._thread.start()
        self._ready.wait(2 * _START_SECONDS)
        self._raise()

    def calm(self, drain_seconds: float) -> None:
        """Report no more; be done when everything is acknowledged and confirmed, or after so long."""
        self._drain_seconds = drain_seconds
        if self._session is not None:
            self._session.simulation.stop()

    @property
    def done(self) -> bool:
        """Whether it has ended; what ended it before its time is raised here."""
        self._raise()
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End it now."""
        self.calm(0.0)
        if self._thread.ident is not None:
            self._thread.join(_START_SECONDS)

    def _run(self) -> None:
        try:
            with Session(*self._making) as session:
                self._session = session
                session.simulation.wait_for_numbers(_START_SECONDS)
                self._ready.set()
                session.simulation.run()
                session.simulation.power_cycle()
                if session.simulation.drain(self._drain_seconds):
                    session.simulation.confirm(self._drain_seconds)
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    def _raise(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure


class Stage:
    """Between `start` and `close` everything runs; faults are done to its parts.

    Parameters
    ----------
    boards, devices : int
        Processes with the firmware, and simulated devices.
    confirm : str
        Who must have a report before its device forgets it: `gateway`, or `broker`, which may then lose it.
    broker, store : str
        Which ones, of `BROKERS` and of `STORES`.
    verify : bool
        Whether coins are verified.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        seed: int,
        boards: int,
        devices: int,
        rate: float,
        confirm: str = "gateway",
        broker: str = "mosquitto",
        store: str = "sqlite",
        verify: bool = True,
    ) -> None:
        self._undo = ExitStack()
        self._seed = seed
        self._boards_wanted = boards
        self._confirm = confirm
        self._profile = _PROFILES[verify]
        self._attackers = _ATTACKERS | _COIN_ATTACKERS[verify]
        try:
            self._build(folder, devices, rate, broker, store)
        except BaseException:
            self.close()
            raise

    def _build(self, folder: Path | None, devices: int, rate: float, broker: str, store: str) -> None:
        self.folder = folder.resolve() if folder else self._temporary()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.fleet = make_fleet(self.folder / "fleet", "soak", **{self._profile: devices})
        self.store = STORES[store](self.folder)
        self._undo.callback(self.store.close)
        broker_folder = self.folder / "broker"
        broker_folder.mkdir()
        self.broker = BROKERS[broker](broker_folder, self.store.filters)
        self._undo.callback(self.broker.close)
        self.model = Model(self.fleet.profiles()[self._profile])
        target = (self.broker.host, self.broker.port)
        self.board_line = self._undo.enter_context(Weather(target, self.model.hear))
        self.crowd_line = self._undo.enter_context(Weather(target))
        self.gateway_line = self._undo.enter_context(Weather(target))
        self.clock = WrongClock(self.folder / "clock")
        self.gateways = [self._gateway(place) for place in range(self.store.gateways)]
        """One, or several workers."""
        self.unwanted: set[GatewayProcess] = set()
        """Those that are not to be started again when they have ended."""
        self.truth_path = self.folder / "truth.sqlite"
        host, port = self.crowd_line.endpoint
        plan = Plan(
            rate=rate, seed=self._seed, shares=self._attackers, confirm=self._confirm, resend_seconds=_RESEND_SECONDS
        )
        self.crowd = Crowd(self.fleet, BrokerAddress(host=host, port=port), self.truth_path, plan)
        self.boards: list[SoakBoard] = []

    def _gateway(self, place: int) -> GatewayProcess:
        folder = self.folder / f"gateway{place}"
        folder.mkdir()
        gateway = GatewayProcess(
            fleet=self.fleet.folder,
            folder=folder,
            broker_port=self.gateway_line.endpoint[1],
            settings={**_SETTINGS, **self.store.settings},
            variables=self.clock.variables,
        )
        self._undo.callback(gateway.kill)
        return gateway

    def _temporary(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="peel-soak-"))
        self._undo.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def start(self) -> None:
        """Start broker, gateway, simulated fleet, then boards: devices that exist before them are simulated."""
        self.broker.start()
        self.store.start()
        for gateway in self.gateways:
            gateway.start()
        self._undo.callback(self.crowd.stop)
        self.crowd.start()
        bench = Bench(
            self.folder / "boards",
            fleet=self.fleet,
            profile=self._profile,
            broker=self.board_line.endpoint,
            model=self.model,
            sources=find_sources(),
            seed=self._seed,
            confirm=self._confirm,
        )
        for place in range(self._boards_wanted):
            board = SoakBoard(bench, place)
            self.boards.append(board)
            self._undo.callback(board.cut_power)
            board.switch_on()

    def close(self) -> None:
        """End every process, whatever state it is in, and remove what was temporary. Safe to call twice."""
        self._undo.close()

    def finished_truth(self) -> Path:
        """The whole truth in one file: simulated and real devices. For the end, when nobody reports any more."""
        path = self.folder / "model.sqlite"
        for part in ("", "-wal", "-shm"):
            source = self.truth_path.with_name(self.truth_path.name + part)
            if source.exists():
                shutil.copyfile(source, path.with_name(path.name + part))
        self.model.complete(path, take_snapshot(self.fleet))
        return path
