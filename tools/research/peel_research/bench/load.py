# SPDX-License-Identifier: MIT
"""Shared by benchmarks of a whole gateway: a fleet that reports honestly, and a process's use of resources."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from peel_core import encode_many
from peel_core.topics import device_topic
from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_tools.profiles.drafts import Draft
from peel_tools.servers.broker import AnyBroker
from peel_tools.simulation.session import fleet_of

__all__ = ["DEVICES", "FLEET", "Load", "cpu_seconds", "publish", "rss_mb", "written_bytes"]

DEVICES = 500
FLEET = "bench"
_PATIENCE = 300.0
_UNACKNOWLEDGED = 2000
_QUEUED = 20_000


class Load:
    """Devices that report in turn, with a profile of k numbers, as fast as they are asked.

    Parameters
    ----------
    devices : int
        How many report.
    registered : int, optional
        How many there are, if there are more.
    """

    def __init__(self, folder: Path, k: int, *, devices: int = DEVICES, registered: int | None = None) -> None:
        rows = [{"name": f"a{place}", "kind": "mean", "low": 0, "high": 1} for place in range(k)]
        path = folder.with_name("bench.toml")
        draft = Draft(name=FLEET, attributes=rows, quota=1_000_000, period=1, verify=False)
        path.write_text(draft.text(), encoding="utf-8")
        self.fleet: Fleet = fleet_of(folder, FLEET, [path], {FLEET: registered or devices})
        self.snapshot = take_snapshot(self.fleet)
        self._devices = devices
        self.next_number = 1
        """The number of each device's next report."""

    def messages(self, count: int, frames: int = 1) -> list[tuple[str, bytes]]:
        """Topics and payloads of fresh reports, so many frames in each message."""
        (profile,) = self.snapshot.profiles
        ring = self.snapshot.keyring
        who = np.repeat(np.arange(count) % self._devices, frames)
        turn = np.repeat(np.arange(count) // self._devices, frames) * frames + np.tile(np.arange(frames), count)
        readings = np.zeros((len(who), profile.k), np.int32)
        keys = ring.keys.of(ring.last_bundle[who])
        numbers = self.next_number + turn
        encoded = encode_many(profile, ring.device_ids[who], keys, numbers, readings, entropy=os.urandom(64))
        self.next_number = int(numbers.max(initial=0)) + 1
        topics = [device_topic(FLEET, device, "report") for device in ring.device_ids[: self._devices].tolist()]
        payloads = encoded.reshape(count, -1)
        return [(topics[place % self._devices], payload.tobytes()) for place, payload in enumerate(payloads)]


def publish(broker: AnyBroker, messages: Sequence[tuple[str, bytes]]) -> None:
    """Hand messages to a broker as fast as it takes them; it has all of them on return."""
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="bench-publisher")
    client.max_inflight_messages_set(_UNACKNOWLEDGED)
    client.connect(broker.host, broker.port)
    client.loop_start()
    sent: deque[paho.MQTTMessageInfo] = deque()
    for topic, payload in messages:
        if len(sent) == _QUEUED:  # paho has 65,535 identifiers, and refuses what finds its own still taken
            sent.popleft().wait_for_publish(_PATIENCE)
        sent.append(client.publish(topic, payload, qos=1))
    for each in sent:
        each.wait_for_publish(_PATIENCE)
    client.disconnect()
    client.loop_stop()


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    """The most memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def written_bytes(pid: int) -> int:
    """Return the bytes that a process has written to disk or to the cache. Works for an ended process before it is waited for."""
    return int(Path(f"/proc/{pid}/io").read_text().partition("\nwrite_bytes:")[2].split()[0])
