# SPDX-License-Identifier: MIT
"""The wait of honest devices for receipts while one device floods the broker on its own topics.

mosquitto and the gateway are real, with default settings except `mqtt.receipt_seconds`: at 0 no receipt waits for the one before it. The
flooder publishes prepared packets at QoS 0 from a separate process, as fast as the broker reads them.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from peel_core.receipts import read_receipt
from peel_core.topics import device_topic, fleet_topic
from peel_research.bench.load import FLEET, Load
from peel_tools.servers.broker import Broker
from peel_tools.servers.gateway import Site

__all__ = ["SECONDS", "measure"]

SECONDS = 10.0
_HONEST = 50
_K = 16
_PATIENCE = 30.0
"""Seconds that outstanding receipts are waited for after a flood. A report without one counts with the time it has waited."""
_PREPARED = 2000
"""Packets that the flooder sends over and over."""
_MOST_FLOODED = 3_000_000
"""Messages of one flood. The broker queues without a limit, so this bounds its memory."""

Message = tuple[str, bytes]


def measure(*, seconds: float = SECONDS) -> dict[str, Any]:
    """Return the figures of ``peel bench hostile``: each of three phases lasts so many seconds."""
    with tempfile.TemporaryDirectory() as folder:
        load = Load(Path(folder) / "fleet", _K, devices=_HONEST + 1)
        site = Site(Path(folder), load.fleet, Broker(embedded=False))
        site.add_gateway(settings={"mqtt_receipt_seconds": 0})
        with site:
            fleet = _HonestFleet(load, site.endpoint)
            fleet.report(2.0)  # first reports make rows
            flooder = int(load.snapshot.keyring.device_ids[_HONEST])
            baseline = fleet.report(seconds)
            with _flood(site.endpoint, _statuses(flooder), seconds) as statuses:
                under_statuses = fleet.report(seconds)
            with _flood(site.endpoint, _refused_frames(load, flooder), seconds) as frames:
                under_frames = fleet.report(seconds)
            fleet.close()
    return {
        "honest_devices": _HONEST,
        "seconds": seconds,
        "baseline_p95_s": _p95(baseline),
        "status_flood_p95_s": _p95(under_statuses),
        "frame_flood_p95_s": _p95(under_frames),
        "status_flood_messages": statuses(),
        "frame_flood_messages": frames(),
    }


def _p95(waits: Sequence[float]) -> float:
    return round(float(np.quantile(waits, 0.95)), 3)


class _HonestFleet:
    """Devices that report once a second each, spread evenly, and note when a receipt settles each report."""

    def __init__(self, load: Load, endpoint: tuple[str, int]) -> None:
        self._load = load
        ring = load.snapshot.keyring
        keys = ring.keys.receipt[ring.last_bundle]
        self._keys = {int(device): keys[place].tobytes() for place, device in enumerate(ring.device_ids[:_HONEST])}
        self._devices = [int(device) for device in ring.device_ids[:_HONEST]]
        self._sent: dict[int, dict[int, float]] = {device: {} for device in self._devices}
        self._waits: list[float] = []
        self._lock = threading.Lock()
        subscribed = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id="bench-honest")
        self._client.on_message = self._hear
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.connect(*endpoint)
        self._client.subscribe(fleet_topic(FLEET, "+", "+", "receipt"))
        self._client.loop_start()
        subscribed.wait(_PATIENCE)

    def report(self, seconds: float) -> list[float]:
        """Report for so many seconds; return how long each report waited for its receipt, in seconds."""
        self._waits = []
        number, began = self._load.next_number, time.monotonic()
        for place, (topic, payload) in enumerate(self._load.messages(max(1, round(seconds)) * (_HONEST + 1))):
            turn, device = divmod(place, _HONEST + 1)
            if device == _HONEST:
                continue  # the flooder's
            time.sleep(max(0.0, began + turn + device / _HONEST - time.monotonic()))
            with self._lock:
                self._sent[self._devices[device]][number + turn] = time.monotonic()
            self._client.publish(topic, payload, qos=1)
        deadline = time.monotonic() + _PATIENCE
        while any(self._sent.values()) and time.monotonic() < deadline:
            time.sleep(0.02)
        with self._lock:
            overdue = [time.monotonic() - sent for waiting in self._sent.values() for sent in waiting.values()]
            self._sent = {device: {} for device in self._devices}
        return self._waits + overdue

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _hear(self, _: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        now, device = time.monotonic(), int(message.topic.split("/")[-2], 16)
        if device not in self._keys:
            return  # the flooder's
        receipt = read_receipt(self._keys[device], device, bytes(message.payload))
        with self._lock:
            waiting = self._sent[device]
            for number in [number for number in waiting if receipt.settles(number)]:
                self._waits.append(now - waiting.pop(number))


# ---- what the flooder sends ----


def _statuses(device: int) -> list[Message]:
    topic = device_topic(FLEET, device, "status")
    return [(topic, b'{"state":"online","firmware":"1.0.0","dropped":%d}' % count) for count in range(_PREPARED)]


def _refused_frames(load: Load, device: int) -> list[Message]:
    """Return garbage, frames with altered seals, and one good frame many times: refused, or stored already."""
    topic, chance = device_topic(FLEET, device, "report"), np.random.default_rng(1)
    own = load.messages(_HONEST + 1)[_HONEST][1]
    each = _PREPARED // 3
    altered = [own[:-8] + chance.bytes(8) for _ in range(each)]
    garbage = [chance.bytes(len(own)) for _ in range(each)]
    return [(topic, payload) for three in zip(altered, garbage, [own] * each, strict=True) for payload in three]


# ---- the flood ----


@contextmanager
def _flood(endpoint: tuple[str, int], messages: Sequence[Message], seconds: float) -> Iterator[Callable[[], int]]:
    """Flood the broker from another process meanwhile; yields what tells how many messages were sent, afterwards."""
    spawn = multiprocessing.get_context("spawn")
    sent = spawn.Value("q", 0)
    process = spawn.Process(target=_send_packets, args=(endpoint, _packets(messages), seconds, sent), daemon=True)
    process.start()
    try:
        while sent.value == 0 and process.is_alive():
            time.sleep(0.01)
        yield lambda: int(sent.value)
    finally:
        process.terminate()
        process.join()


def _packets(messages: Sequence[Message]) -> list[bytes]:
    """Return PUBLISH packets of QoS 0."""
    packets = []
    for topic, payload in messages:
        body = len(topic).to_bytes(2, "big") + topic.encode() + payload
        length = bytes([len(body)]) if len(body) < 128 else bytes([len(body) & 0x7F | 0x80, len(body) >> 7])
        packets.append(b"\x30" + length + body)
    return packets


def _send_packets(endpoint: tuple[str, int], packets: Sequence[bytes], seconds: float, sent: Any) -> None:
    """Send packets over and over until the time is up or the most is sent."""
    name = b"bench-flooder-%d" % os.getpid()
    body = b"\x00\x04MQTT\x04\x02\x00\x00" + len(name).to_bytes(2, "big") + name
    with socket.create_connection(endpoint) as line:
        line.sendall(b"\x10" + bytes([len(body)]) + body)
        line.recv(4)
        chunk, deadline = b"".join(packets), time.monotonic() + seconds
        while time.monotonic() < deadline and sent.value < _MOST_FLOODED:
            line.sendall(chunk)
            sent.value += len(packets)
