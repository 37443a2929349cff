# SPDX-License-Identifier: MIT
"""Checks of a gateway's surroundings: this machine, and the broker. Each finding says what is wrong and what to do."""

from __future__ import annotations

import importlib.util
import secrets
import shutil
import stat
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from peel_core.topics import fleet_topic
from peel_gateway.fleet.folder import Fleet, FleetError
from peel_gateway.fleet.snapshot import FleetSnapshot, take_snapshot
from peel_gateway.mqtt.connection import tls_context
from peel_gateway.settings import Settings
from peel_gateway.storage.choice import missing_store, open_archive
from peel_gateway.storage.dead_letters import DeadLetters
from peel_gateway.storage.store import (
    Archive,
    Store,
    StoreAway,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreMismatch,
    StoreReplaced,
    StoreTooNew,
    StoreTooOld,
)
from peel_tools.servers.broker import find_mosquitto

__all__ = [
    "BAD",
    "GOOD",
    "WARN",
    "Finding",
    "look_at_broker",
    "look_at_database",
    "look_at_files",
    "look_at_fleet",
    "look_at_gateway",
    "look_at_tools",
]

GOOD, WARN, BAD = "good", "warn", "bad"


@dataclass(frozen=True)
class Finding:
    """The result of one check: its subject, its state, a sentence, and what to do unless it is good."""

    about: str
    state: str
    said: str
    remedy: str = ""


_LITTLE_BYTES = 1 << 30
_NOTHING_BYTES = 100 << 20
_CLOCK_SECONDS = 60.0


def look_at_fleet(settings: Settings) -> Iterator[Finding]:
    """Check the key, the devices, the profiles, and bundles that were not deleted."""
    try:
        fleet = Fleet(settings.fleet_folder)
        snapshot = take_snapshot(fleet)
    except FleetError as error:
        yield Finding("fleet", BAD, str(error), "The gateway does not start, or stays with what it had.")
        return
    yield Finding(
        "fleet", GOOD, f"{fleet.name}: {len(snapshot.devices)} devices, {len(snapshot.profiles)} profiles, key in order"
    )
    yield from _bundles(fleet, snapshot)


def _bundles(fleet: Fleet, snapshot: FleetSnapshot) -> Iterator[Finding]:
    without = [device.label for device in snapshot.devices if not device.bundles]
    if without:
        yield Finding(
            "bundles",
            WARN,
            f"{len(without)} devices have none ({without[0]} is the first): the gateway has no keys for them",
            f"Write them: `peel fleet bundle {fleet.folder} {without[0]}`, and so on.",
        )
    left = [path for path in (fleet.folder / "bundles").glob("*.json") if path.is_file()]
    if left:
        yield Finding(
            "bundles",
            WARN,
            f"{len(left)} bundles with keys lie in {fleet.folder / 'bundles'}",
            "Delete each once it is on its device. For another board `peel fleet bundle` writes one with new keys.",
        )


def look_at_files(settings: Settings, config: Path | None) -> Iterator[Finding]:
    """Check whether other users can read private files."""
    private = [settings.fleet_folder, settings.store_path, settings.claims_path, settings.dead_letters_path, config]
    exposed = [path for path in private if path is not None and path.exists() and _open_to_others(path)]
    for path in exposed:
        yield Finding("modes", WARN, f"{path}: others can read it", f"Run: chmod go= {path}")
    if not exposed:
        yield Finding("modes", GOOD, "fleet folder and database are readable by their owner alone")


def _open_to_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def look_at_database(settings: Settings) -> Iterator[Finding]:
    """Check the database's integrity, the free disk space, the dead letters and the clock."""
    yield _room(settings.store_path.absolute().parent)
    if waiting := len(DeadLetters(settings.dead_letters_path)):
        yield Finding(
            "dead letters",
            WARN,
            f"{settings.dead_letters_path}: {waiting} messages that the gateway could not process",
            "Fix the cause (the gateway's log names it), then run: peel gateway replay --dead-letters",
        )
    try:
        if missing := missing_store(settings):
            yield Finding("database", WARN, f"{missing}: not there yet", "The gateway makes it at its first start.")
            return
        store = open_archive(settings)
        try:
            store.check()
            yield Finding("database", GOOD, f"{store.place}: sound, {store.size_bytes() / 1e6:.1f} MB")
            yield _clock(store)
        finally:
            store.close()
    except StoreError as error:
        yield Finding("database", BAD, str(error), _remedy(error))


def _remedy(error: StoreError) -> str:
    return next(remedy for kind, remedy in _REMEDIES if isinstance(error, kind))


_REMEDIES: tuple[tuple[type[StoreError], str], ...] = (
    (StoreTooOld, "Stop the gateway and run `peel gateway upgrade`."),
    (StoreTooNew, "Install the version of Peel that last ran on this database, or a newer one."),
    (StoreMismatch, "Set store.bucket_seconds and store.partitions to what the database has."),
    (
        StoreCorrupt,
        "Stop the gateway and run `peel gateway restore COPY`. The broker delivers again what was not acknowledged.",
    ),
    (StoreReplaced, "Move the same file back, or stop the gateway and restore the copy that it saves."),
    (StoreLocked, "Wait for the other process, or stop it."),
    (StoreAway, "Start the server, or correct store.url; nothing is lost meanwhile."),
    (StoreError, "Check the disk, the folder, its owner and mode; nothing is lost meanwhile."),
)
"""The remedy of the first class that matches."""


def _room(folder: Path) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("disk", BAD, f"{folder}: {error.strerror}", "Make the folder; store.path names it.")
    said = f"{folder}: {free / 1e9:.1f} GB free"
    if free < _NOTHING_BYTES:
        return Finding(
            "disk", BAD, said, "Free some: the gateway stores nothing when the disk is full, and loses nothing."
        )
    if free < _LITTLE_BYTES:
        return Finding("disk", WARN, said, "Free some, or lower store.retention_days.")
    return Finding("disk", GOOD, said)


def _clock(store: Archive) -> Finding:
    ahead = max(map(_last_seen, store.stores())) / 1000 - time.time()
    if ahead > _CLOCK_SECONDS:
        return Finding(
            "clock",
            BAD,
            f"{ahead:.0f} s behind the last report that was stored",
            "Set it, and keep it with NTP. If it is right, and was ahead before, run `peel gateway clock --believe`. "
            "Meanwhile floods are not judged, and nothing is deleted for its age.",
        )
    return Finding("clock", GOOD, "not behind the database")


def _last_seen(store: Store) -> int:
    """Return the clock at the last batch, or when an operator confirmed it, in Unix milliseconds."""
    with store.begin() as transaction:
        return transaction.clock().seen


def look_at_gateway(settings: Settings) -> Iterator[Finding]:
    """Check whether a gateway answers at the address in the settings."""
    if not settings.http_port:
        yield Finding("gateway", WARN, "http.port is 0: nobody can ask it how it is", "Set http.port.")
        return
    url = f"http://{settings.http_host}:{settings.http_port}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=5):
            yield Finding("gateway", GOOD, f"runs, and is well ({url})")
    except urllib.error.HTTPError as error:
        yield Finding("gateway", BAD, f"runs, and is not well ({error.code})", "With the token /healthz says why.")
    except OSError as error:
        cause = getattr(error, "reason", error)  # urllib wraps what the system says
        yield Finding(
            "gateway",
            WARN,
            f"does not answer at {url}: {getattr(cause, 'strerror', None) or cause}",
            "Start it: `peel gateway run`.",
        )


def look_at_tools() -> Iterator[Finding]:
    """List the optional tools that are installed."""
    there = {
        "mosquitto (demo, tests)": find_mosquitto() is not None,
        "pyarrow (export to Parquet)": importlib.util.find_spec("pyarrow") is not None,
        "mpremote (provisioning boards)": importlib.util.find_spec("mpremote") is not None,
    }
    here = ", ".join(name for name, found in there.items() if found) or "none"
    missing = ", ".join(name for name, found in there.items() if not found)
    yield Finding("tools", GOOD, f"{here}{f'; not here: {missing}' if missing else ''}")


_BROKER_SECONDS = 5.0
_OLD_MQTT = "3.1.1"
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
        old = settings.mqtt_protocol == _OLD_MQTT
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
            self._answered.wait_for(lambda: self.heard >= count, _BROKER_SECONDS)

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
            if not self._answered.wait_for(lambda: what in self._answers, _BROKER_SECONDS):
                raise _RefusedError(f"no answer within {_BROKER_SECONDS:g} s")
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
    old = settings.mqtt_protocol == _OLD_MQTT
    try:
        version = f", by MQTT {_OLD_MQTT}: it does not speak 5" if old else ""
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
            other = replace(settings, mqtt_protocol=_OLD_MQTT)
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
    publishing = ", and publish" if told else f"; whether it may publish cannot be seen by MQTT {_OLD_MQTT}"
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
            each.wait_for_publish(_BROKER_SECONDS)
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
