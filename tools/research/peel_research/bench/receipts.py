# SPDX-License-Identifier: MIT
"""Measure the costs of receipts: bytes on the air, time in the gateway, writes to a device's flash."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from peel_core.receipts import write_receipts
from peel_core.topics import device_topic
from peel_tools.flashing.device_files import find_sources
from peel_tools.servers.broker import Broker

__all__ = ["measure"]

DEVICES = 10_000
REPORTS = 512
_PUBLISH_BYTES = 4
"""Of an MQTT 3.1.1 PUBLISH at QoS 0 around topic and payload: type, length, length of the topic."""
_FLEET = "greenhouse"


class _CountingFiles:
    """A flash that counts what is written to it."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self.writes = self.removals = 0

    def read(self, path: str) -> bytes | None:
        return self._kept.get(path)

    def write(self, path: str, data: bytes) -> None:
        self.writes += 1
        self._kept[path] = data

    def remove(self, path: str) -> None:
        self.removals += 1
        self._kept.pop(path, None)

    def names(self, folder: str) -> list[str]:
        return [path.rpartition("/")[2] for path in self._kept]

    def make_folder(self, path: str) -> None: ...


def _receipts(runs: int) -> list[bytes]:
    """One receipt for each of many devices, with so many gaps in their numbers."""
    ids = np.arange(1, DEVICES + 1, dtype=np.uint32)
    keys = np.zeros((DEVICES, 16), np.uint8)
    pairs = np.array([(3 * place + 1003, 3 * place + 1004) for place in range(runs)] * DEVICES).reshape(-1, 2)
    return write_receipts(ids, keys, np.full(DEVICES, 1000), pairs, runs * np.arange(1, DEVICES + 1))


def _microseconds_to_write(runs: int) -> float:
    started = time.process_time()
    _receipts(runs)
    return round(1e6 * (time.process_time() - started) / DEVICES, 2)


def _microseconds_to_publish(receipts: Sequence[bytes]) -> float:
    """As the gateway does: queued one by one, retained, at QoS 0, and written when the socket takes them."""
    topics = [device_topic(_FLEET, device, "receipt") for device in range(1, len(receipts) + 1)]
    with Broker() as broker:
        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.on_socket_register_write = lambda *_: None
        client.connect(broker.host, broker.port)
        while not client.is_connected():
            client.loop(0.1)
        started = time.process_time()
        for topic, payload in zip(topics, receipts, strict=True):
            client.publish(topic, payload, qos=0, retain=True)
        while client.want_write():
            client.loop_write()
        seconds = time.process_time() - started
        client.disconnect()
    return round(1e6 * seconds / len(receipts), 1)


def _flash_per_report(*, by_broker: bool, settled: bool, deep_sleep: bool = False) -> dict[str, float]:
    """Files written and removed per report by the firmware's own outbox."""
    sys.path.insert(0, str(find_sources().firmware))
    try:
        from peel_device.outbox import Outbox
    finally:
        del sys.path[0]
    files = _CountingFiles()
    outbox = Outbox(files, "outbox", REPORTS, by_broker)
    outbox.start()
    files.writes = files.removals = 0
    for number in range(1, REPORTS + 1):
        outbox.put(number, b"frame")
        outbox.sent([number])
        if settled:
            outbox.settle([(0, number)])
        if deep_sleep:
            outbox.note_sent()
    return {"written": files.writes / REPORTS, "removed": files.removals / REPORTS}


def measure() -> dict[str, Any]:
    """All of it, as `peel bench receipts --json` prints it."""
    bare, gaps = _receipts(0), _receipts(4)
    topic = len(device_topic(_FLEET, 1, "receipt"))
    return {
        "bytes": len(bare[0]),
        "bytes_with_4_gaps": len(gaps[0]),
        "bytes_on_air": _PUBLISH_BYTES + topic + len(bare[0]),
        "bytes_subscribing": 7 + topic + 5,  # SUBSCRIBE and SUBACK, once per connection
        "gateway_us_to_write": _microseconds_to_write(0),
        "gateway_us_to_write_with_4_gaps": _microseconds_to_write(4),
        "gateway_us_to_publish": _microseconds_to_publish(bare),
        "flash_per_report": {
            "confirmed_by_broker": _flash_per_report(by_broker=True, settled=False),
            "confirmed_by_gateway": _flash_per_report(by_broker=False, settled=True),
            "gateway_away": _flash_per_report(by_broker=False, settled=False),
            "gateway_away_deep_sleep": _flash_per_report(by_broker=False, settled=False, deep_sleep=True),
        },
    }
