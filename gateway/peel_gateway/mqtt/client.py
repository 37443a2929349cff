# SPDX-License-Identifier: MIT
"""A client that stays connected to the broker: it fills the inbox, sends acknowledgements and publishes."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt
from paho.mqtt.enums import MQTTProtocolVersion

from peel_gateway.logs import Log
from peel_gateway.metrics import Metrics
from peel_gateway.mqtt.connection import (
    BrokerError,
    Connection,
    InFlight,
    MqttVersionError,
    OnMessage,
    Session,
    gateway_topic,
)
from peel_gateway.mqtt.inbox import Inbox
from peel_gateway.settings import Settings

__all__ = ["MqttClient"]

_FIRST_BACKOFF_SECONDS = 0.2
_IDLE_SECONDS = 1.0
# A shorter connection counts as a failed attempt. Otherwise two gateways with one client id would disconnect each other without pause.
_STEADY_SECONDS = 5.0
_STOP_SECONDS = 30.0
# A restarting broker closes the connection once; one that cannot parse a CONNECT of MQTT 5 does so every time.
_HANGUPS_BEFORE_FALLBACK = 2

_MOST_EVENTS = 1000
_MOST_RECEIPTS = 65_536  # a device that misses its receipt sends its reports again and gets another
_RECEIPTS_AT_ONCE = 256

_VERSIONS = {"5": MQTTProtocolVersion.MQTTv5, "3.1.1": MQTTProtocolVersion.MQTTv311}

_log = Log("mqtt")


class MqttClient:
    """A thread that keeps a connection to the broker and reconnects when it is lost.

    `pause` stops reading. `stop` sends pending acknowledgements, publishes "offline" and disconnects.

    Parameters
    ----------
    session : Session
        Client id and subscriptions.
    on_message : callable
        Called with every message that is not a report.
    on_connect : callable
        Called on the network thread after each successful connection; must be quick.
    may_connect : callable
        Whether this process may connect, because it holds the lease. An existing connection stays.
    """

    def __init__(
        self,
        settings: Settings,
        fleet: str,
        session: Session,
        inbox: Inbox,
        metrics: Metrics,
        *,
        on_message: OnMessage = lambda topic, payload, retained: None,
        on_connect: Callable[[], None] = lambda: None,
        may_connect: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._inbox = inbox
        self._metrics = metrics
        self._on_message = on_message
        self._session = session
        self._on_connect = on_connect
        self._may_connect = may_connect
        self._version = _VERSIONS.get(settings.mqtt_protocol, MQTTProtocolVersion.MQTTv5)
        self._refusals = 0
        self._version_known = False
        self._stopping = threading.Event()
        self._paused = False
        self._aborting = False
        self._had_session = False
        self._acknowledged: deque[InFlight] = deque()
        self._receipts: deque[tuple[float, str, bytes]] = deque(maxlen=_MOST_RECEIPTS)
        self._events: deque[tuple[str, str]] = deque(maxlen=_MOST_EVENTS)
        self._retained: dict[str, str] = {}
        self._wake_receive, self._wake_send = socket.socketpair()
        self._wake_receive.setblocking(False)
        self._wake_send.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="receiver", daemon=True)
        self._away_since: float | None = time.monotonic()
        self._cause = "not connected yet"

    @property
    def connected(self) -> bool:
        """Whether reports can arrive now."""
        return self._away_since is None

    @property
    def version(self) -> str:
        """The MQTT version in use."""
        return "5" if self._version == MQTTProtocolVersion.MQTTv5 else "3.1.1"

    def problem(self) -> tuple[float, str] | None:
        """Return the seconds without a connection and the cause; None while connected."""
        since, cause = self._away_since, self._cause
        return None if since is None else (time.monotonic() - since, cause)

    def start(self) -> None:
        self._thread.start()

    def pause(self) -> None:
        """Stop reading reports; stay connected."""
        self._paused = True
        self._wake()

    def stop(self) -> None:
        """Send pending acknowledgements, publish "offline", disconnect and end the thread."""
        self._stopping.set()
        self._wake()
        self._thread.join(_STOP_SECONDS)
        self._wake_receive.close()
        self._wake_send.close()

    def abort(self) -> None:
        """End the connection and the thread without DISCONNECT: another worker takes the session."""
        self._aborting = True
        self.stop()

    def acknowledge(self, batch: Sequence[InFlight]) -> None:
        """Acknowledge reports, each on the connection that received it. Closed connections are skipped."""
        self._acknowledged.extend(batch)
        self._wake()

    def publish_receipts(self, receipts: Sequence[tuple[str, bytes]]) -> None:
        """Publish receipts, given by topic and payload. They are dropped while the broker is away."""
        if self.connected:
            now = time.monotonic()
            self._receipts.extend((now, topic, payload) for topic, payload in receipts)
            self._wake()

    def receipt_age(self) -> float:
        """Return the seconds that the oldest receipt has waited to be sent; 0 if all were sent."""
        try:
            return time.monotonic() - self._receipts[0][0]
        except IndexError:
            return 0.0

    def publish_event(self, about: str, document: Mapping[str, object]) -> None:
        """Publish a document under the gateway's topic. The newest 1000 wait while the broker is away."""
        self._events.append((gateway_topic(self._fleet, self._settings.gateway_name, about), json.dumps(document)))
        self._wake()

    def publish_retained(self, topic: str, text: str) -> None:
        """Publish a retained message. While the broker is away, only the last text per topic waits."""
        self._retained[topic] = text
        self._wake()

    def _run(self) -> None:
        backoff = _FIRST_BACKOFF_SECONDS
        while not self._stopping.is_set():
            # The broker redelivers what the old connection had not acknowledged, so wait until the inbox has room.
            if not self._inbox.room() or not self._may_connect():
                self._stopping.wait(_FIRST_BACKOFF_SECONDS)
                continue
            connection = self._connect()
            if connection is not None and self._serve(connection) > _STEADY_SECONDS:
                backoff = _FIRST_BACKOFF_SECONDS
            if not self._stopping.is_set():
                # Jitter keeps many gateways from reconnecting at the same time.
                self._stopping.wait(backoff * random.uniform(0.75, 1.25))
                backoff = min(2 * backoff, self._settings.mqtt_backoff_seconds)

    def _connect(self) -> Connection | None:
        try:
            connection = self._open_connection()
        except Exception as error:
            if not isinstance(error, BrokerError):
                _log.exception("connecting to the broker failed unexpectedly")
            self._note_refusal(error)
            self._note_away(error)
            return None
        finally:
            self._inbox.wake()
        self._refusals = 0
        self._version_known = True
        self._away_since = None
        self._metrics.connected(session_lost=self._had_session and not connection.session_present)
        self._had_session = self._session.persistent
        _log.info(
            "connected",
            client=self._session.client_id,
            broker=f"{self._settings.mqtt_host}:{self._settings.mqtt_port}",
            mqtt=self.version,
            session="resumed" if connection.session_present else "new",
        )
        self._on_connect()
        return connection

    def _open_connection(self) -> Connection:
        connection = Connection(
            self._settings,
            self._fleet,
            self._session,
            version=self._version,
            on_reports=self._inbox.put,
            on_message=self._on_message,
            wake_fd=self._wake_receive.fileno(),
        )
        try:
            connection.open(room=self._room, cancelled=self._stopping.is_set)
        except BaseException:
            connection.abort()
            raise
        return connection

    def _note_refusal(self, error: Exception) -> None:
        if not isinstance(error, MqttVersionError) or self._settings.mqtt_protocol != "auto":
            return
        self._refusals += 1
        # The broker has accepted a version before, so a closed connection says nothing about versions: a network fault, or a load
        # balancer without a broker.
        if not error.certain and (self._version_known or self._refusals < _HANGUPS_BEFORE_FALLBACK):
            return
        self._version_known = error.certain
        five = self._version == MQTTProtocolVersion.MQTTv5
        self._version = MQTTProtocolVersion.MQTTv311 if five else MQTTProtocolVersion.MQTTv5
        self._refusals = 0
        _log.warning("trying another version of MQTT", mqtt=self.version, cause=error)

    def _note_away(self, error: Exception) -> None:
        self._cause = str(error)
        if self._away_since is None:
            self._away_since = time.monotonic()
        _log.warning("broker away", broker=f"{self._settings.mqtt_host}:{self._settings.mqtt_port}", cause=error)

    def _serve(self, connection: Connection) -> float:
        """Drive a connection until it ends or the client stops; return the seconds it lasted."""
        started = time.monotonic()
        try:
            while not self._stopping.is_set():
                self._send_acknowledgements()
                self._publish_events(connection)
                self._publish_receipts(connection)
                connection.step(_IDLE_SECONDS, room=self._room)
                self._metrics.statuses_limited(connection.take_limited_statuses())
                self._swallow_wakes()
                self._inbox.wake()
            if not self._aborting:
                self._send_acknowledgements()
                connection.close()
        except BrokerError as error:
            self._note_away(error)
        except Exception as error:
            _log.exception("the connection failed unexpectedly")
            self._note_away(error)
        finally:
            connection.abort()
            self._receipts.clear()  # devices that miss one send their reports again
        return time.monotonic() - started

    def _room(self) -> int:
        # With MQTT 5 the broker sends at most one window of unacknowledged reports, so reading on is safe and receives the answers to
        # pings. Reports of a former connection may still fill the inbox, so one window is added to its limit.
        window = self._settings.mqtt_window if self._version == MQTTProtocolVersion.MQTTv5 else 0
        return 0 if self._paused else self._inbox.room(beyond=window)

    def _send_acknowledgements(self) -> None:
        due: dict[Connection, list[npt.NDArray[np.uint16]]] = {}
        while self._acknowledged:
            received = self._acknowledged.popleft()
            due.setdefault(received.connection, []).append(received.identifiers)
        for connection, identifiers in due.items():
            connection.acknowledge(np.concatenate(identifiers))

    def _publish_events(self, connection: Connection) -> None:
        while self._events and connection.ready:
            connection.publish(*self._events.popleft(), retain=False)
        while self._retained and connection.ready:
            connection.publish(*self._retained.popitem(), retain=True)

    def _publish_receipts(self, connection: Connection) -> None:
        """Publish some receipts once all earlier bytes are sent, so that acknowledgements need not wait for receipts."""
        if not self._receipts or connection.writing:
            return
        for _ in range(min(len(self._receipts), _RECEIPTS_AT_ONCE)):
            _, topic, payload = self._receipts.popleft()
            connection.publish_receipt(topic, payload)
            self._metrics.receipt_sent()
        if self._receipts:
            self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError, OSError):  # a full socket buffer wakes the thread as well
            self._wake_send.send(b"w")

    def _swallow_wakes(self) -> None:
        with suppress(BlockingIOError):
            self._wake_receive.recv(4096)
