# SPDX-License-Identifier: MIT
"""A broker of our own on a free loopback port: mosquitto where it is installed, otherwise amqtt from PyPI.

    with Broker() as broker:
        publish(host=broker.host, port=broker.port)

`stop` ends it as an administrator would (mosquitto then saves its sessions when `persistent`), `kill` as a power cut
would; `start` brings it back on the same port with the same folder.
"""

from __future__ import annotations

import getpass
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from peel_gateway.exits import Exit
from peel_tools.network.relay import Line, Relay
from peel_tools.servers.process import Server, ServerProcess, free_port

__all__ = ["BROKERS", "AnyBroker", "Broker", "BrokerError", "BrokerTls", "NatsBroker", "find_mosquitto"]

_START_SECONDS = 15.0
_GET_MOSQUITTO = "On Debian, as root: apt-get install mosquitto"


class BrokerError(Exception):
    """The broker could not be had or did not start; the message carries the end of its log."""

    exit_code = Exit.MISSING


@dataclass(frozen=True, kw_only=True)
class BrokerTls:
    """PEM files for a listener that speaks TLS; with `require_client`, clients need a certificate of the same CA."""

    ca: Path
    certificate: Path
    key: Path
    require_client: bool = False


class AnyBroker(Protocol):
    """What a site needs of a broker, whoever makes it; `Broker` says what the methods do."""

    host: str
    port: int
    folder: Path

    @property
    def name(self) -> str: ...

    @property
    def embedded(self) -> bool: ...

    @property
    def pid(self) -> int | None: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def strike(self) -> None:
        """End at once what callers are connected to; where it is one of several servers, they go on with another."""

    def forget(self) -> None:
        """Lose what it has kept, while it does not run."""

    def close(self) -> None: ...


def find_mosquitto() -> Path | None:
    """Where mosquitto is: on the path, or in /usr/sbin, which the path of an ordinary user often lacks."""
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin")
    return Path(found) if found else None


class Broker(Server):
    """One broker process with its own folder.

    Parameters
    ----------
    folder : Path, optional
        Where configuration, log and sessions go; a temporary one, removed at `close`, when not given.
    persistent : bool
        Keep sessions and queued messages over `stop` and `start` (mosquitto only).
    tls : BrokerTls, optional
        Serve TLS instead of plain TCP.
    users : mapping of str to str, optional
        Names and passwords; anonymous clients are refused when given.
    inflight : int
        Messages that a client of MQTT 3.1.1 gets before it acknowledges some, 0 for any number (mosquitto only).
    embedded : bool, optional
        None takes mosquitto where it is installed, True insists on amqtt, False on mosquitto.
    """

    def __init__(
        self,
        *,
        folder: Path | None = None,
        port: int | None = None,
        persistent: bool = False,
        tls: BrokerTls | None = None,
        users: dict[str, str] | None = None,
        inflight: int = 0,
        embedded: bool | None = None,
    ) -> None:
        self._persistent = persistent
        self._tls = tls
        self._users = users or {}
        self._inflight = inflight
        self._mosquitto = None if embedded else find_mosquitto()
        if self._mosquitto is None:
            self._check_embedded(insisted_on_mosquitto=embedded is False)
        self.host = "127.0.0.1"
        self.port = port or free_port()
        self._own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="peel-broker-"))
        self._process = ServerProcess(self.folder / "broker.log")

    def _check_embedded(self, *, insisted_on_mosquitto: bool) -> None:
        if insisted_on_mosquitto:
            raise BrokerError(f"mosquitto is not installed. {_GET_MOSQUITTO}")
        if self._tls or self._users or self._persistent:
            raise BrokerError(f"TLS, users and persistence need mosquitto. {_GET_MOSQUITTO}")
        if importlib.util.find_spec("amqtt") is None:
            raise BrokerError(f"no broker is installed. {_GET_MOSQUITTO}. Or: pip install 'peel-telemetry[broker]'")

    @property
    def embedded(self) -> bool:
        """Whether it is the one that comes with Python packages, for want of mosquitto or by choice."""
        return self._mosquitto is None

    @property
    def name(self) -> str:
        """Which broker runs: "mosquitto" or "amqtt"."""
        return "amqtt" if self.embedded else "mosquitto"

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid

    def start(self) -> None:
        """Start the process and wait until it accepts connections."""
        if self.pid is not None:
            return
        self._check_port()
        command = self._amqtt_command() if self.embedded else self._mosquitto_command()
        self._process.start(command)
        self._wait_until_ready()

    def stop(self) -> None:
        """End it in order: sessions are saved first when persistent."""
        self._process.end(kill=False)

    def kill(self) -> None:
        """End it at once: whatever it had not written is lost."""
        self._process.end(kill=True)

    def strike(self) -> None:
        """The same: there is only one."""
        self.kill()

    def forget(self) -> None:
        """Lose what it has kept, while it does not run."""
        for path in self.folder.glob("mosquitto.db*"):
            path.unlink()

    def close(self) -> None:
        """Stop, and remove the folder if it was made here."""
        self.stop()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _check_port(self) -> None:
        """Somebody else's listener would make a broker that cannot start look ready."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError as error:
                raise BrokerError(f"{self.name} cannot have {self.host}:{self.port}: {error.strerror}") from None

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.pid is None:
                break
            try:
                socket.create_connection((self.host, self.port), timeout=1.0).close()
                return
            except OSError:
                time.sleep(0.02)
        self.kill()
        raise BrokerError(
            f"{self.name} did not start on {self.host}:{self.port}; end of its log:\n{self._process.log_tail()}"
        )

    def _mosquitto_command(self) -> list[str]:
        config = self.folder / "mosquitto.conf"
        config.write_text("\n".join(self._mosquitto_lines()) + "\n", encoding="utf-8")
        return [str(self._mosquitto), "-c", str(config)]

    def _mosquitto_lines(self) -> list[str]:
        lines = [
            "per_listener_settings false",
            f"user {getpass.getuser()}",  # root's mosquitto would otherwise become a user that cannot read this folder
            "log_dest stderr",
            # Peel never drops a report: neither may the broker's queue for a gateway that is away.
            "max_queued_messages 0",
            f"max_inflight_messages {self._inflight}",
            f"persistence {str(self._persistent).lower()}",
            f"persistence_location {self.folder}/",
            "autosave_interval 1",
            f"allow_anonymous {str(not self._users).lower()}",
        ]
        if self._users:
            lines.append(f"password_file {self._write_passwords()}")
        lines.append(f"listener {self.port} {self.host}")
        if self._tls:
            lines += [
                f"cafile {self._tls.ca}",
                f"certfile {self._tls.certificate}",
                f"keyfile {self._tls.key}",
                f"require_certificate {str(self._tls.require_client).lower()}",
            ]
        return lines

    def _write_passwords(self) -> Path:
        """Write the passwords plain with mode 0600, then have them hashed in place: no password in an argv."""
        path = self.folder / "passwords"
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{user}:{password}\n" for user, password in self._users.items())
        subprocess.run(["mosquitto_passwd", "-U", str(path)], check=True, capture_output=True)
        return path

    def _amqtt_command(self) -> list[str]:
        config = self.folder / "amqtt.yaml"
        # JSON is YAML, and needs no library to write.
        config.write_text(
            json.dumps(
                {
                    "listeners": {"default": {"type": "tcp", "bind": f"{self.host}:{self.port}"}},
                    "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
                }
            ),
            encoding="utf-8",
        )
        return [sys.executable, "-m", "amqtt.scripts.broker_script", "-c", str(config)]


_NATS_START_SECONDS = 60.0
_MOST_PENDING = 65_535
"""Unacknowledged messages that NATS lets all subscriptions of a session have together; it gives each 100 if not told, and the gateway
acknowledges after a commit."""
_CONNECT = bytes.fromhex("100d00044d5154540402003c0001") + b"p"
"""CONNECT of MQTT 3.1.1, clean, as "p"."""
_CONNACK = bytes.fromhex("20020000")


class _Node(ServerProcess):
    """One nats-server."""

    def __init__(self, folder: Path, filters: int) -> None:
        self.folder = folder
        self._pending = _MOST_PENDING // filters
        self.mqtt_port, self.client_port, self.route_port = free_port(), free_port(), free_port()
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder / "nats.log")

    def run(self, program: str, routes: list[int]) -> None:
        """Start it, unless it runs."""
        if self.pid is not None:
            return
        config = self.folder / "nats.conf"
        config.write_text(json.dumps(self._config(routes)), encoding="utf-8")  # JSON is NATS's configuration too
        self.start([program, "-c", str(config)])

    def _config(self, routes: list[int]) -> dict[str, object]:
        alone: dict[str, object] = {
            "server_name": self.folder.name,
            "listen": f"127.0.0.1:{self.client_port}",
            "jetstream": {"store_dir": str(self.folder / "jetstream")},
            "mqtt": {"listen": f"127.0.0.1:{self.mqtt_port}", "max_ack_pending": self._pending},
        }
        if not routes:
            return alone
        cluster = {
            "name": "peel",
            "listen": f"127.0.0.1:{self.route_port}",
            "routes": [f"nats://127.0.0.1:{port}" for port in routes],
        }
        return alone | {"cluster": cluster}

    def answers(self) -> bool:
        """Whether it takes MQTT clients, which in a cluster needs a majority."""
        try:
            with socket.create_connection(("127.0.0.1", self.mqtt_port), timeout=2.0) as probe:
                probe.sendall(_CONNECT)
                return probe.recv(4) == _CONNACK
        except OSError:
            return False


class _Front(Relay[Line]):
    """One address for all servers, as a load balancer is: callers get to the first that runs."""

    def __init__(self, servers: list[_Node]) -> None:
        super().__init__(("127.0.0.1", 0))
        self._servers = servers

    def target(self) -> tuple[str, int]:
        running = [server.mqtt_port for server in self._servers if server.pid is not None]
        if not running:
            raise ConnectionRefusedError("no server runs")
        return "127.0.0.1", running[0]

    def line(self, near: socket.socket, far: socket.socket) -> Line:
        return Line(near, far)


class NatsBroker(Server):
    """So many servers, each with a folder, which keep all they acknowledge.

    Parameters
    ----------
    folder : Path, optional
        Where configurations, logs and messages go; a temporary one, removed at `close`, when not given.
    filters : int
        To how many a session may subscribe at QoS 1: NATS refuses the one with which it might have too much unacknowledged.
    """

    def __init__(self, *, folder: Path | None = None, servers: int = 1, filters: int = 1) -> None:
        program = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")
        if program is None:
            raise BrokerError("nats-server is not installed. On Debian, as root: apt-get install nats-server")
        self._program = program
        self._own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="peel-nats-"))
        self._servers = [_Node(self.folder / f"server{place}", filters) for place in range(servers)]
        self._front = _Front(self._servers) if servers > 1 else None
        self.host, self.port = self._front.endpoint if self._front else ("127.0.0.1", self._servers[0].mqtt_port)
        self._open = False

    @property
    def name(self) -> str:
        return "nats"

    @property
    def embedded(self) -> bool:
        return False

    @property
    def pid(self) -> int | None:
        """The process id of the server that callers get to."""
        return next((server.pid for server in self._servers if server.pid is not None), None)

    def start(self) -> None:
        """Start the servers that do not run, and wait until they take clients: all of them at first, later one is enough."""
        routes = [server.route_port for server in self._servers] if len(self._servers) > 1 else []
        for server in self._servers:
            server.run(self._program, routes)
        deadline = time.monotonic() + _NATS_START_SECONDS
        enough = any if self._open else all
        while not enough(server.answers() for server in self._servers):
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerError(f"nats-server did not start; see the logs in {self.folder}")
            time.sleep(0.1)
        if not self._open:
            self._open = True
            if self._front:
                self._front.__enter__()

    def stop(self) -> None:
        """End all in order."""
        for server in self._servers:
            server.end(kill=False)

    def kill(self) -> None:
        """End all at once."""
        for server in self._servers:
            server.end(kill=True)

    def strike(self) -> None:
        """End at once the server that all callers are connected to; with others, they go on there."""
        running = [server for server in self._servers if server.pid is not None]
        running[0].end(kill=True)

    def forget(self) -> None:
        """Lose what the servers that do not run have kept."""
        for server in self._servers:
            if server.pid is None:
                shutil.rmtree(server.folder / "jetstream", ignore_errors=True)

    def close(self) -> None:
        """Stop, and remove the folder if it was made here."""
        self.stop()
        if self._front:
            self._front.__exit__(None, None, None)
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)


BROKERS: Mapping[str, Callable[[Path, int], AnyBroker]] = {
    "mosquitto": lambda folder, filters: Broker(folder=folder, persistent=True, embedded=False),
    "nats": lambda folder, filters: NatsBroker(folder=folder, filters=filters),
    "nats-cluster": lambda folder, filters: NatsBroker(folder=folder, servers=3, filters=filters),
}
"""Each makes one that keeps sessions and messages in a folder, for gateways that subscribe to so many filters per session."""
