# SPDX-License-Identifier: MIT
"""One MQTT connection: it subscribes, receives reports, acknowledges them and publishes.

A `Connection` object is used for one TCP connection and never reconnects. Packet identifiers belong to a connection, so a report is
acknowledged on the connection that received it. If that is closed, the broker delivers the report again and the store recognises it.

One thread drives the connection with `step`. paho's own loop is not used: it sends or wakes a thread once per acknowledgement, and it
cannot stop reading when the inbox is full.
"""

from __future__ import annotations

import json
import select
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from peel_core.topics import fleet_topic
from peel_gateway.logs import Log
from peel_gateway.model.messages import MessageBatch
from peel_gateway.model.partition import Partition
from peel_gateway.mqtt.stream import ReportStream, StreamError
from peel_gateway.settings import Settings

__all__ = [
    "LEAST_PACKET_BYTES",
    "BrokerError",
    "Connection",
    "InFlight",
    "MqttVersionError",
    "OnMessage",
    "OnReports",
    "Session",
    "gateway_topic",
    "report_session",
    "status_session",
    "tls_context",
]

LEAST_PACKET_BYTES = 1024
"""Packets of this size must pass: a receipt has up to 519 bytes, a commitment 540, each with its topic."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """A connection's client id, subscriptions and status topic."""

    client_id: str
    """The broker allows one connection per client id, and stores a persistent session under it."""
    report_filters: Sequence[str]
    """Topic filters of reports, subscribed at QoS 1; empty if this connection carries no reports."""
    other_filters: Sequence[str]
    """Topic filters of other messages, at QoS 0: they take no place in the receive window and need no acknowledgement."""
    status_topic: str | None
    """Topic of the gateway's online/offline status, which is also the will; None if another connection publishes it."""
    persistent: bool
    """Whether the broker stores messages while this client is disconnected."""


def gateway_topic(fleet: str, name: str, about: str) -> str:
    """Return the topic on which a gateway publishes `about` (SPEC section 11)."""
    return fleet_topic(fleet, "gateway", name, about)


def _name(settings: Settings, fleet: str) -> str:
    return settings.mqtt_client_id or f"peel-gateway-{fleet}"


def report_session(settings: Settings, fleet: str, partition: Partition) -> Session:
    """Return a partition's session, which carries only reports, acknowledgements and receipts.

    The first partition's session publishes the gateway's status. When a new worker takes the session over, the broker publishes the former
    connection's will first, so that the new worker's "online" is the last message.
    """
    return Session(
        client_id=partition.session(_name(settings, fleet)),
        report_filters=partition.filters(fleet, "report"),
        other_filters=(),
        status_topic=gateway_topic(fleet, settings.gateway_name, "status") if partition.first else None,
        persistent=True,
    )


def status_session(settings: Settings, fleet: str, worker: str, other_filters: Sequence[str]) -> Session:
    """Return a process's session for statuses and other messages that are not reports. A flood of them delays no report.

    Parameters
    ----------
    worker : str
        The name of this worker; empty if there is only one.
    """
    client_id = f"{_name(settings, fleet)}-{worker or 'statuses'}"
    return Session(
        client_id=client_id, report_filters=(), other_filters=other_filters, status_topic=None, persistent=False
    )


OnReports = Callable[["InFlight"], None]
"""Called with reports that were received together."""

OnMessage = Callable[[str, bytes, bool], None]
"""Called with the topic, payload and retain flag of every message that is not a report."""

_CONNECT_SECONDS = 5.0
_READY_SECONDS = 5.0
_GOODBYE_SECONDS = 2.0
_READ_BURST = 16
"""Reads of the socket before acknowledgements are sent."""
_MOST_PUBLISHED = 10_000
"""Published messages that the broker may leave unacknowledged."""
_UNSUPPORTED_VERSION = "Unsupported protocol version"

_log = Log("connection")


class BrokerError(Exception):
    """The connection failed or was lost. Try again later."""


class MqttVersionError(BrokerError):
    """The broker seems not to support this MQTT version. `certain` is False if it only closed the connection."""

    def __init__(self, cause: str, *, certain: bool = False) -> None:
        super().__init__(cause)
        self.certain = certain


class _Client(paho.Client):
    """paho with a wrapped socket. paho accepts no socket from outside, so this overrides the method that creates it."""

    def __init__(self, wrap_socket: Callable[[Any], ReportStream], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._wrap_socket = wrap_socket

    def _create_socket(self) -> Any:
        return self._wrap_socket(super()._create_socket())


class InFlight(NamedTuple):
    """Reports that one connection received together and that are not acknowledged yet."""

    messages: MessageBatch
    connection: Connection
    identifiers: npt.NDArray[np.uint16]
    """Packet identifiers on that connection; 0 for a report that needs no acknowledgement."""
    arrived: float
    """Monotonic seconds."""

    def part(self, first: int, end: int) -> InFlight:
        """Return the reports `first` to `end - 1`."""
        return self._replace(messages=self.messages.part(first, end), identifiers=self.identifiers[first:end])


class Connection:
    """One connection: `open` it, drive it with `step`, and `close` it."""

    def __init__(
        self,
        settings: Settings,
        fleet: str,
        session: Session,
        *,
        version: MQTTProtocolVersion,
        on_reports: OnReports,
        on_message: OnMessage,
        wake_fd: int,
    ) -> None:
        self._settings = settings
        self._fleet = fleet
        self._version = version
        self._report_callback = on_reports
        self._message_callback = on_message
        self._wake_fd = wake_fd
        self._session = session
        self._received = 0
        self._dead = False
        self._answered = False
        self._failure: BrokerError | None = None
        self._published: set[int] = set()
        self._stream: ReportStream | None = None
        self.ready = False
        self.session_present = False
        self._client = self._build_client()

    @property
    def version(self) -> MQTTProtocolVersion:
        """The MQTT version of this connection."""
        return self._version

    def open(self, *, room: Callable[[], int], cancelled: Callable[[], bool]) -> None:
        """Connect, subscribe and publish the status; return when reports may arrive. Raises BrokerError."""
        five = self._version == MQTTProtocolVersion.MQTTv5
        options: dict[str, Any] = (
            {"clean_start": not self._session.persistent, "properties": self._connect_properties()} if five else {}
        )
        try:
            self._client.connect(
                self._settings.mqtt_host, self._settings.mqtt_port, self._settings.mqtt_keepalive_seconds, **options
            )
        except (OSError, ValueError) as error:
            raise BrokerError(f"cannot connect: {error}") from error
        # A resumed session redelivers up to one window before the broker answers the subscription. That may take long on a slow
        # network, so the timeout starts again with each report. Giving up earlier could repeat for ever.
        window = self._settings.mqtt_window
        before = -1
        while before != self._received and not (self.ready or cancelled()):
            before = self._received
            self._pump_until(
                lambda: self.ready or cancelled(),
                _READY_SECONDS,
                room=lambda: max(room(), window - self._received),
            )
        if not self.ready:
            self.abort()
            # Some brokers ignore a CONNECT of MQTT 5.
            kind = BrokerError if self._answered or cancelled() else MqttVersionError
            raise kind("cancelled" if cancelled() else f"the broker did not answer within {_READY_SECONDS:g} s")

    def step(self, timeout: float, *, room: Callable[[], int]) -> None:
        """Wait for traffic or a wake-up, then read (while there is room), write, and ping if due. Raises BrokerError."""
        stream = self._stream
        if self._dead or stream is None or self._client.socket() is None:
            raise self._lost()
        self._write(stream)
        # If the broker does not read, stop reading too. It then answers no ping, and the keep-alive ends the connection.
        reading = room() > 0 and not stream.congested
        poll = select.poll()
        poll.register(self._wake_fd, select.POLLIN)
        writing = select.POLLOUT if stream.wants_write else 0
        poll.register(stream.fileno(), (select.POLLIN if reading else 0) | writing)
        poll.poll(0 if reading and stream.buffered else timeout * 1000)
        if reading:
            self._read(stream, room)
        self._check(self._client.loop_misc())
        self._write(stream)

    def acknowledge(self, identifiers: npt.NDArray[np.uint16]) -> None:
        """Acknowledge reports of this connection; does nothing if it is closed."""
        if not self._dead and self._stream is not None:
            self._stream.acknowledge(identifiers)

    def close(self) -> None:
        """Send pending bytes, publish "offline" and disconnect. Logs a BrokerError instead of raising it."""
        try:
            if self.ready and self._client.socket() is not None:
                self._publish_status("offline")
                self._pump_until(lambda: not self._published and not self.writing, _GOODBYE_SECONDS)
                self._client.disconnect()
                self._pump_until(lambda: self._client.socket() is None, _GOODBYE_SECONDS)
        except BrokerError as error:
            if self._client.socket() is not None:
                _log.warning("could not disconnect cleanly", cause=error)
        finally:
            self.abort()

    def abort(self) -> None:
        """Close the socket without DISCONNECT, so that the broker publishes the will."""
        self.ready = False
        self._dead = True
        if self._stream is not None:
            self._stream.drop()

    def _build_client(self) -> paho.Client:
        settings, five = self._settings, self._version == MQTTProtocolVersion.MQTTv5
        client = _Client(
            self._wrap_socket,
            CallbackAPIVersion.VERSION2,
            client_id=self._session.client_id,
            clean_session=None if five else not self._session.persistent,
            protocol=self._version,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = _CONNECT_SECONDS
        if settings.mqtt_user or settings.mqtt_password:
            password = settings.mqtt_password
            client.username_pw_set(settings.mqtt_user, password.reveal().decode() if password else None)
        if settings.mqtt_tls:
            client.tls_set_context(tls_context(settings))
        if self._session.status_topic is not None:
            client.will_set(self._session.status_topic, _status_text("offline"), qos=1, retain=True)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        # With this callback set paho does not write to the socket by itself: `step` does.
        client.on_socket_register_write = lambda *_: None
        return client

    def _wrap_socket(self, sock: Any) -> ReportStream:
        """Return the stream that paho uses as its socket."""
        self._stream = ReportStream(
            sock,
            topic=(fleet_topic(self._fleet, ""), "/report"),
            status="/status",
            properties=self._version == MQTTProtocolVersion.MQTTv5,
            longest_packet=self._settings.mqtt_packet_bytes,
        )
        return self._stream

    def _connect_properties(self) -> Properties:
        properties = Properties(PacketTypes.CONNECT)
        if self._session.persistent:
            properties.SessionExpiryInterval = min(int(self._settings.mqtt_session_days * 86400), 0xFFFFFFFE)
        properties.ReceiveMaximum = self._settings.mqtt_window
        properties.MaximumPacketSize = self._settings.mqtt_packet_bytes
        return properties

    def _read(self, stream: ReportStream, room: Callable[[], int]) -> None:
        """Take the reports off the stream and let paho read the other packets."""
        for _ in range(_READ_BURST):
            most = room()
            if most <= 0:
                return
            try:
                received = stream.receive(most)
            except (OSError, StreamError) as error:
                raise self._lost(str(error)) from error
            if received is not None:
                if not self._session.report_filters:
                    raise self._lost("the broker sent reports to a connection that has not subscribed to them")
                messages, identifiers = received
                self._received += len(messages)
                self._report_callback(InFlight(messages, self, identifiers, time.monotonic()))
            while stream.has_rest:
                self._check(self._client.loop_read())
            if received is None:
                return

    def _write(self, stream: ReportStream) -> None:
        if self._client.want_write():
            self._check(self._client.loop_write())
        try:
            stream.flush()
        except OSError as error:
            raise self._lost(str(error)) from error

    def _pump_until(
        self, done: Callable[[], bool], seconds: float, *, room: Callable[[], int] = lambda: _READ_BURST
    ) -> None:
        deadline = time.monotonic() + seconds
        while not done() and time.monotonic() < deadline:
            self.step(0.05, room=room)

    def _check(self, code: MQTTErrorCode) -> None:
        if self._failure is not None:
            self.abort()
            raise self._failure
        if code not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_AGAIN):
            raise self._lost(paho.error_string(code))

    def _lost(self, cause: str = "the connection was closed") -> BrokerError:
        self.ready = False
        if not self._answered:
            return MqttVersionError(f"the broker closed the connection after CONNECT ({cause})")
        return self._failure or BrokerError(cause)

    def take_limited_statuses(self) -> int:
        """Return how many statuses the rate limit dropped since the last call."""
        if self._stream is None:
            return 0
        limited, self._stream.limited = self._stream.limited, 0
        return limited

    def publish(self, topic: str, text: str, *, retain: bool) -> None:
        """Publish at QoS 1. Raises BrokerError if the broker leaves too many messages unacknowledged."""
        if len(self._published) >= _MOST_PUBLISHED:
            raise self._lost(f"the broker has not acknowledged {len(self._published)} messages")
        sent = self._client.publish(topic, text, qos=1, retain=retain)
        self._published.add(sent.mid)

    @property
    def writing(self) -> bool:
        """Whether bytes wait to be sent."""
        return bool(self._client.want_write()) or (self._stream is not None and self._stream.wants_write)

    def publish_receipt(self, topic: str, payload: bytes) -> None:
        """Publish a retained receipt at QoS 0."""
        self._client.publish(topic, payload, qos=0, retain=True)

    def _publish_status(self, state: str) -> None:
        if self._session.status_topic is not None:
            self.publish(self._session.status_topic, _status_text(state), retain=True)

    def _on_connect(
        self, client: paho.Client, _: object, flags: paho.ConnectFlags, reason: ReasonCode, said: Properties | None
    ) -> None:
        self._answered = True
        if reason.is_failure:
            cause = f"the broker refused the connection: {reason}"
            unsupported = str(reason) == _UNSUPPORTED_VERSION
            self._failure = MqttVersionError(cause, certain=True) if unsupported else BrokerError(cause)
            return
        most = getattr(said, "MaximumPacketSize", None) or LEAST_PACKET_BYTES
        if most < LEAST_PACKET_BYTES:
            self._failure = BrokerError(
                f"the broker takes packets of at most {most} bytes; devices and gateway need {LEAST_PACKET_BYTES}. Raise its limit "
                "(mosquitto: max_packet_size)"
            )
            return
        self.session_present = flags.session_present
        five = self._version == MQTTProtocolVersion.MQTTv5
        wanted = [
            *((topic, 1) for topic in self._session.report_filters),
            *((topic, 0) for topic in self._session.other_filters),
        ]
        client.subscribe([(topic, SubscribeOptions(qos=qos)) for topic, qos in wanted] if five else wanted)

    def _on_subscribe(
        self, _: paho.Client, __: object, ___: int, reasons: list[ReasonCode], ____: Properties | None
    ) -> None:
        asked = (*self._session.report_filters, *self._session.other_filters)
        if len(reasons) != len(asked):
            self._failure = BrokerError(f"the broker answered {len(asked)} subscriptions with {len(reasons)} codes")
            return
        refused = {topic: reason for topic, reason in zip(asked, reasons, strict=True) if reason.is_failure}
        for topic, reason in refused.items():
            if topic in self._session.report_filters:
                self._failure = BrokerError(f"the broker refused the subscription {topic}: {reason}")
                return
            _log.warning("the broker refused a subscription; continuing without it", topic=topic, cause=reason)
        self._publish_status("online")
        self.ready = True

    def _on_disconnect(
        self, _: paho.Client, __: object, ___: paho.DisconnectFlags, reason: ReasonCode, ____: Properties | None
    ) -> None:
        self.ready = False
        if self._failure is None and self._answered:
            self._failure = BrokerError(f"disconnected: {reason}")

    def _on_publish(
        self, _: paho.Client, __: object, identifier: int, ___: ReasonCode, ____: Properties | None
    ) -> None:
        self._published.discard(identifier)

    def _on_message(self, _: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            return  # not a topic that was subscribed to
        self._message_callback(topic, bytes(message.payload), message.retain)


def _status_text(state: str) -> str:
    return json.dumps({"state": state})


def tls_context(settings: Settings) -> ssl.SSLContext:
    """Return the TLS context: the CA that verifies the broker, and the client certificate, if any."""
    context = ssl.create_default_context(cafile=str(settings.mqtt_ca) if settings.mqtt_ca else None)
    if settings.mqtt_certificate and settings.mqtt_key:
        context.load_cert_chain(settings.mqtt_certificate, settings.mqtt_key)
    return context
