# SPDX-License-Identifier: MIT
"""NATS as the broker: MQTT 3.1.1 over JetStream, one server or a cluster that replicates, behind one address.

    with NatsBroker(servers=3) as broker:
        publish(host=broker.host, port=broker.port)
        broker.strike()  # the server that all are connected to is gone; they find another

Like `peel_tools.servers.broker.Broker`, with Debian's nats-server; for tests and soaks.
"""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import time
from pathlib import Path

from peel_tools.network.relay import Line, Relay
from peel_tools.servers.broker import BrokerError
from peel_tools.servers.ports import free_port
from peel_tools.servers.process import Server, ServerProcess

__all__ = ["NatsBroker"]

_START_SECONDS = 60.0
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
        deadline = time.monotonic() + _START_SECONDS
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
