# SPDX-License-Identifier: MIT
"""Gateways as separate processes, as `peel gateway run` starts them, and sites: a fleet, a broker and gateways in one folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

from peel_gateway.exits import Exit
from peel_gateway.fleet.folder import Fleet
from peel_gateway.settings import ENVIRONMENT_PREFIX, load_settings
from peel_gateway.storage.choice import open_archive
from peel_gateway.storage.store import Archive
from peel_tools.servers import Server, free_port
from peel_tools.servers.broker import AnyBroker

__all__ = ["GatewayError", "GatewayProcess", "Site"]

_START_SECONDS = 90.0
_STOP_SECONDS = 40.0
_POLL_SECONDS = 0.05


class GatewayError(Exception):
    """The gateway did not start or stop. The message has the end of its log."""

    exit_code = Exit.MISSING


class GatewayProcess:
    """One gateway. `stop` ends it in order, `kill` as a crash would. `start` restarts it with the same database.

    Parameters
    ----------
    folder : Path
        The folder for database and log.
    settings : mapping
        Further settings by field name, such as `{"batch_seconds": 0.02}`. The defaults here are for quick answers rather than few
        disk writes.
    variables : mapping
        Further environment variables.
    """

    def __init__(
        self,
        *,
        fleet: Path,
        folder: Path,
        broker_port: int,
        settings: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.log_path = folder / "gateway.log"
        self.program = ["-m", "peel_tools", "gateway", "run"]
        self._settings: dict[str, object] = {
            "fleet_folder": fleet,
            "store_path": folder / "peel.sqlite",
            "mqtt_port": broker_port,
            "http_port": free_port(),
            "mqtt_backoff_seconds": 1.0,
            "batch_seconds": 0.1,
            **(settings or {}),
        }
        self.store_path = Path(str(self._settings["store_path"]))
        self._variables = dict(variables or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of its API."""
        return f"http://127.0.0.1:{self._settings['http_port']}"

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def code(self) -> int | None:
        """The exit code once it has ended."""
        return self._process.poll() if self._process else None

    def environment(self) -> dict[str, str]:
        """Return an environment with these settings, for any `peel gateway` command."""
        other = {key: value for key, value in os.environ.items() if not key.startswith(ENVIRONMENT_PREFIX)}
        settings = {ENVIRONMENT_PREFIX + field.upper(): str(value) for field, value in self._settings.items()}
        return other | self._variables | settings

    def start(self, *, until: Literal["started", "answering", "connected"] = "connected") -> Self:
        """Start it and wait until it answers, or also until it is connected to the broker."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self.program],
                env=self.environment(),
                cwd=self.log_path.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # so that Ctrl-C reaches only this process, which stops it in order
            )
        if until == "started":
            return self
        try:
            self.wait_for(lambda: self._is(until), _START_SECONDS, f"a gateway that is {until}")
        except GatewayError:
            self.kill()
            raise
        return self

    def connections(self) -> int:
        """Return the number of broker connections in its log. A connected gateway with one partition has 2."""
        return self.log_path.read_text(encoding="utf-8").count("event=connected")

    def _is(self, until: str) -> bool:
        summary = self.ask("/api/summary")
        return summary is not None and (until == "answering" or bool(summary["broker"]["connected"]))

    def wait_for(
        self, condition: Callable[[], object], seconds: float = 60.0, what: str = "what was waited for"
    ) -> None:
        """Wait until a condition holds. Raise GatewayError if the gateway ends first, or on timeout."""
        deadline = time.monotonic() + seconds
        while not condition():
            if self.pid is None:
                raise GatewayError(f"the gateway has ended with {self.code}; end of its log:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise GatewayError(
                    f"{what} did not come within {seconds:g} s; end of the gateway's log:\n{self.log_tail()}"
                )
            time.sleep(_POLL_SECONDS)

    def fetch(self, path: str, token: str | None = None) -> str:
        """Return the API's response as text. Raises urllib's errors."""
        request = urllib.request.Request(self.url + path)  # noqa: S310 - our own http URL
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own http URL
            text: str = answer.read().decode()
            return text

    def get(self, path: str, token: str | None = None) -> Any:
        """Return the API's response as JSON. Raises urllib's errors."""
        return json.loads(self.fetch(path, token))

    def ask(self, path: str) -> Any | None:
        """Return the API's response as JSON, or None if the request fails."""
        try:
            return self.get(path)
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def summary(self) -> Any:
        """Return the response of /api/summary."""
        return self.get("/api/summary")

    @contextmanager
    def store(self) -> Iterator[Archive]:
        """Open its store for reading, whether it runs or not."""
        store = open_archive(load_settings(None, self.environment()))
        try:
            yield store
        finally:
            store.close()

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another `peel gateway` command with the same settings."""
        return self.peel("gateway", *arguments)

    def peel(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run any `peel` command with the same settings."""
        return subprocess.run(
            [sys.executable, "-m", "peel_tools", *arguments],
            env=self.environment(),
            cwd=self.log_path.parent,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def stop(self) -> int | None:
        """Stop it in order and return its exit code, or None if it was never started."""
        if self._process is None:
            return None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise GatewayError(f"the gateway did not stop; end of its log:\n{self.log_tail()}") from None

    def wait_end(self, seconds: float = 60.0) -> int:
        """Wait until it ends by itself, and return its exit code."""
        if self._process is None:
            raise GatewayError("the gateway was never started")
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise GatewayError(f"the gateway still runs; end of its log:\n{self.log_tail()}") from None

    def signal(self, number: int) -> None:
        """Send it a signal."""
        if self._process is None:
            raise GatewayError("the gateway was never started")
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def log_tail(self, lines: int = 20) -> str:
        """Return the end of its log."""
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(no log)"


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
