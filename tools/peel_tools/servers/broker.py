# SPDX-License-Identifier: MIT
"""Brokers on a free loopback port: mosquitto if it is installed, otherwise amqtt from PyPI, or NATS.

    with Broker() as broker:
        publish(host=broker.host, port=broker.port)

`stop` ends it as an administrator would (a `persistent` mosquitto then saves its sessions), `kill` as a power cut would. `start` restarts
it on the same port with the same folder.

A `NatsBroker` is one server of Debian's nats-server, or a cluster that replicates, behind one address. It speaks MQTT 3.1.1.
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
from peel_tools.network import Line, Relay
from peel_tools.servers import Server, ServerProcess, free_port

__all__ = ["BROKERS", "AnyBroker", "Broker", "BrokerError", "BrokerTls", "NatsBroker", "find_mosquitto"]

_START_SECONDS = 15.0
_GET_MOSQUITTO = "On Debian, as root: apt-get install mosquitto"


class BrokerError(Exception):
    """The broker is not installed or did not start. The message has the end of its log."""

    exit_code = Exit.MISSING


@dataclass(frozen=True, kw_only=True)
class BrokerTls:
    """PEM files for a TLS listener. With `require_client` clients need a certificate of the same CA."""

    ca: Path
    certificate: Path
    key: Path
    require_client: bool = False


class AnyBroker(Protocol):
    """The methods that a site needs of a broker. `Broker` documents them."""

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
        """Kill the server that clients are connected to. In a cluster they continue with another one."""

    def forget(self) -> None:
        """Delete its stored sessions and messages, while it is stopped."""

    def close(self) -> None: ...


def find_mosquitto() -> Path | None:
    """Return the path of mosquitto: on PATH, or in /usr/sbin, which is often not on a user's PATH."""
    found = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin")
    return Path(found) if found else None


class Broker(Server):
    """One broker process with a separate folder.

    Parameters
    ----------
    folder : Path, optional
        The folder for configuration, log and sessions. By default a temporary one, removed by `close`.
    persistent : bool
        Keep sessions and queued messages over `stop` and `start` (mosquitto only).
    tls : BrokerTls, optional
        Serve TLS instead of plain TCP.
    users : mapping of str to str, optional
        Names and passwords. If given, anonymous clients are refused.
    inflight : int
        The most unacknowledged messages of an MQTT 3.1.1 client, 0 for no limit (mosquitto only).
    embedded : bool, optional
        True for amqtt, False for mosquitto, None for mosquitto if it is installed and amqtt otherwise.
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
        """Whether it is amqtt, which comes as a Python package."""
        return self._mosquitto is None

    @property
    def name(self) -> str:
        """The broker's name: "mosquitto" or "amqtt"."""
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
        """Stop it in order. A persistent one saves its sessions first."""
        self._process.end(kill=False)

    def kill(self) -> None:
        """Kill it. Unwritten data is lost."""
        self._process.end(kill=True)

    def strike(self) -> None:
        """Kill it, as there is only one server."""
        self.kill()

    def forget(self) -> None:
        """Delete its stored sessions and messages, while it is stopped."""
        for path in self.folder.glob("mosquitto.db*"):
            path.unlink()

    def close(self) -> None:
        """Stop it, and remove the folder if it is temporary."""
        self.stop()
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _check_port(self) -> None:
        """Raise BrokerError if the port is taken. Another listener would make a broker that cannot start look ready."""
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError as error:
                raise BrokerError(f"{self.name} cannot listen on {self.host}:{self.port}: {error.strerror}") from None

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
            f"user {getpass.getuser()}",  # otherwise root's mosquitto switches to a user that cannot read this folder
            "log_dest stderr",
            # No limit on the queue for an offline gateway, because Peel never drops a report.
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
        """Write the passwords with mode 0600, then hash them in place, so that no password is in a command line."""
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
"""The most unacknowledged messages of all subscriptions of a NATS session. The default is 100 for each subscription, which is too few for
a gateway that acknowledges after a commit."""
_CONNECT = bytes.fromhex("100d00044d5154540402003c0001") + b"p"
"""A CONNECT packet of MQTT 3.1.1 with a clean session and the client id "p"."""
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
        """Start it unless it runs."""
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
        """Return whether it accepts MQTT clients, which in a cluster needs a majority."""
        try:
            with socket.create_connection(("127.0.0.1", self.mqtt_port), timeout=2.0) as probe:
                probe.sendall(_CONNECT)
                return probe.recv(4) == _CONNACK
        except OSError:
            return False


class _Front(Relay[Line]):
    """A load balancer: one address for all servers, which connects clients to the first one that runs."""

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
    """One or more NATS servers, each with a folder, which store every message that they acknowledge.

    Parameters
    ----------
    folder : Path, optional
        The folder for configurations, logs and messages. By default a temporary one, removed by `close`.
    filters : int
        The subscriptions of a session at QoS 1. NATS refuses those that could exceed its limit of unacknowledged messages.
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
        """The process id of the server that clients connect to."""
        return next((server.pid for server in self._servers if server.pid is not None), None)

    def start(self) -> None:
        """Start the servers that do not run. Wait until all accept clients at the first start, and until one does later."""
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
        """Stop all servers in order."""
        for server in self._servers:
            server.end(kill=False)

    def kill(self) -> None:
        """Kill all servers."""
        for server in self._servers:
            server.end(kill=True)

    def strike(self) -> None:
        """Kill the server that all clients are connected to. In a cluster they continue with another one."""
        running = [server for server in self._servers if server.pid is not None]
        running[0].end(kill=True)

    def forget(self) -> None:
        """Delete the stored messages of the servers that do not run."""
        for server in self._servers:
            if server.pid is None:
                shutil.rmtree(server.folder / "jetstream", ignore_errors=True)

    def close(self) -> None:
        """Stop it, and remove the folder if it is temporary."""
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
"""Brokers by name. Each entry takes a folder for sessions and messages, and the number of topic filters per session."""
