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
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from peel_gateway.exits import Exit
from peel_tools.servers.ports import free_port
from peel_tools.servers.process import Server, ServerProcess

__all__ = ["AnyBroker", "Broker", "BrokerError", "BrokerTls", "find_mosquitto"]

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
