# SPDX-License-Identifier: MIT
"""Checks of the broker: connecting, the rights of the gateway and of strangers, and whether it queues messages."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from peel_core.topics import fleet_topic
from peel_gateway.mqtt.connection import tls_context
from peel_gateway.settings import Settings
from peel_tools.doctor import BAD, GOOD, WARN, Finding

__all__ = ["look_at_broker"]

_SECONDS = 5.0
_OLD = "3.1.1"
"""The version that NATS speaks, as in `mqtt.protocol`. Other brokers are asked by MQTT 5, because they then give reasons."""
_QUEUED = 1200
"""More messages than mosquitto queues for a session by default, which is 1000."""


class _RefusedError(Exception):
    """The broker refused, or could not be reached."""


class _Client:
    """A connection with the gateway's settings, or as a stranger without a login. MQTT 5 unless the settings say 3.1.1."""

    def __init__(self, settings: Settings, name: str, *, stranger: bool = False, expiry: int = 0) -> None:
        self.heard = 0
        self._answers: dict[str, Any] = {}
        self._answered = threading.Condition()
        clean = expiry == 0
        old = settings.mqtt_protocol == _OLD
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=name,
            protocol=paho.MQTTv311 if old else paho.MQTTv5,
            clean_session=clean if old else None,
        )
        if not stranger and (settings.mqtt_user or settings.mqtt_password):
            password = settings.mqtt_password
            self.client.username_pw_set(settings.mqtt_user, password.reveal().decode() if password else None)
        if settings.mqtt_tls:
            self.client.tls_set_context(tls_context(settings))
        self.client.on_connect = lambda *given: self._note("connect", given[3])
        self.client.on_subscribe = lambda *given: self._note("subscribe", given[3][0])
        self.client.on_publish = lambda *given: self._note("publish", given[3])
        self.client.on_message = self._hear
        try:
            self._connect(settings, None if old else clean, expiry)
        except (OSError, ValueError) as error:
            raise _RefusedError(str(error)) from None
        self.client.loop_start()
        try:
            self._wait("connect")
        except _RefusedError:
            self.close()
            raise

    def _connect(self, settings: Settings, clean_start: bool | None, expiry: int) -> None:
        """Connect; only MQTT 5 has properties and a clean start apart from the session's life."""
        if clean_start is None:
            self.client.connect(settings.mqtt_host, settings.mqtt_port, 30)
            return
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = expiry
        self.client.connect(settings.mqtt_host, settings.mqtt_port, 30, clean_start=clean_start, properties=properties)

    def subscribe(self, topic: str, qos: int = 1) -> None:
        self._answers.pop("subscribe", None)
        self.client.subscribe(topic, qos)
        self._wait("subscribe")

    def publish(self, topic: str, payload: bytes = b"") -> None:
        self._answers.pop("publish", None)
        self.client.publish(topic, payload, qos=1)
        self._wait("publish")

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def wait_heard(self, count: int) -> None:
        with self._answered:
            self._answered.wait_for(lambda: self.heard >= count, _SECONDS)

    def _hear(self, *_: object) -> None:
        with self._answered:
            self.heard += 1
            self._answered.notify_all()

    def _note(self, what: str, reason: ReasonCode) -> None:
        with self._answered:
            self._answers[what] = reason
            self._answered.notify_all()

    def _wait(self, what: str) -> None:
        with self._answered:
            if not self._answered.wait_for(lambda: what in self._answers, _SECONDS):
                raise _RefusedError(f"no answer within {_SECONDS:g} s")
        if self._answers[what].is_failure:
            raise _RefusedError(str(self._answers[what]))


def look_at_broker(settings: Settings, fleet: str) -> Iterator[Finding]:
    """Yield all findings about the broker. No check takes reports away from a running gateway."""
    where = f"{settings.mqtt_host}:{settings.mqtt_port}"
    name = f"peel-doctor-{secrets.token_hex(4)}"
    topic = fleet_topic(fleet, "gateway", settings.gateway_name, "doctor")
    try:
        client, settings = _connected(settings, name)
    except _RefusedError as error:
        yield Finding(
            "broker",
            BAD,
            f"{where}: {error}",
            "Is it there? Look at mqtt.host, mqtt.port, mqtt.tls, mqtt.ca, mqtt.protocol, mqtt.user and mqtt.password.",
        )
        return
    old = settings.mqtt_protocol == _OLD
    try:
        version = f", by MQTT {_OLD}: it does not speak 5" if old else ""
        yield Finding("broker", GOOD, f"{where}: connected{' with TLS' if settings.mqtt_tls else ''}{version}")
        yield from _rights(client, fleet, topic, told=not old)
    finally:
        client.close()
    yield _strangers(settings, fleet)
    yield _memory(settings, name, topic)
    if not settings.mqtt_tls and settings.mqtt_host not in ("127.0.0.1", "::1", "localhost"):
        yield Finding("broker", WARN, "no TLS to another machine: the login can be read on the way", "Set mqtt.tls.")


def _connected(settings: Settings, name: str) -> tuple[_Client, Settings]:
    """Connect as the gateway does: with `auto`, by MQTT 3.1.1 if 5 is refused. Return also the settings that worked."""
    try:
        return _Client(settings, name), settings
    except _RefusedError as refused:
        if settings.mqtt_protocol != "auto":
            raise
        try:
            other = replace(settings, mqtt_protocol=_OLD)
            return _Client(other, name), other
        except _RefusedError:
            raise refused from None


def _rights(client: _Client, fleet: str, topic: str, *, told: bool) -> Iterator[Finding]:
    """Yield the gateway's rights. `told` is whether the broker reports refused publishes, which MQTT 3.1.1 cannot."""
    for verb, act, wanted in (
        ("hear reports", client.subscribe, fleet_topic(fleet, "+", "+", "report")),
        ("hear statuses", lambda statuses: client.subscribe(statuses, 0), fleet_topic(fleet, "+", "+", "status")),
        ("publish its own topics", client.publish, topic),
    ):
        try:
            act(wanted)
        except _RefusedError as error:
            yield Finding(
                "acl",
                BAD,
                f"the gateway may not {verb} ({wanted}): {error}",
                "Grant it; see gateway/deploy/mosquitto.acl.",
            )
            return
    publishing = ", and publish" if told else f"; whether it may publish cannot be seen by MQTT {_OLD}"
    yield Finding("acl", GOOD, f"the gateway may hear reports and statuses{publishing}")


def _strangers(settings: Settings, fleet: str) -> Finding:
    """Check whether a client without a login can connect and subscribe to reports."""
    try:
        stranger = _Client(settings, f"peel-doctor-{secrets.token_hex(4)}", stranger=True)
    except _RefusedError:
        return Finding("acl", GOOD, "nobody gets in without a login")
    try:
        stranger.subscribe(fleet_topic(fleet, "+", "+", "report"))
    except _RefusedError:
        return Finding(
            "acl", WARN, "strangers get in, though they may not hear reports", "On mosquitto: allow_anonymous false."
        )
    finally:
        stranger.close()
    return Finding(
        "acl",
        WARN,
        "strangers get in and may hear reports: who reports and when, and statuses can be forged",
        "Give everybody a login and an ACL; docs/deploy.md has a configuration.",
    )


def _memory(settings: Settings, name: str, topic: str) -> Finding:
    """Check the broker's queue: send an offline session more messages than mosquitto keeps by default, and fetch them."""
    try:
        away = _Client(settings, name, expiry=60)
        away.subscribe(topic)
        away.close()
        sender = _Client(settings, f"{name}-sender")
        sent = [sender.client.publish(topic, b"", qos=1) for _ in range(_QUEUED)]
        for each in sent:
            each.wait_for_publish(_SECONDS)
        sender.close()
        back = _Client(settings, name, expiry=60)
        back.wait_heard(_QUEUED)
        back.client.unsubscribe(topic)
        back.close()
        _Client(settings, name).close()  # a clean start ends the session
    except (_RefusedError, RuntimeError, ValueError) as error:
        return Finding(
            "memory",
            WARN,
            f"could not be tried: {error}",
            "The gateway's login must be allowed to hear its own topics.",
        )
    if back.heard < _QUEUED:
        return Finding(
            "memory",
            WARN,
            f"keeps {back.heard} of {_QUEUED} messages for a gateway that is away",
            "On mosquitto: max_queued_messages 0. Devices that wait for receipts send the rest again, others do not.",
        )
    return Finding(
        "memory", GOOD, f"keeps {_QUEUED} messages for a gateway that is away (whether over a restart cannot be seen)"
    )
