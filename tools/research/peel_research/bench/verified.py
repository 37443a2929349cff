# SPDX-License-Identifier: MIT
"""A whole gateway whose devices have verified coins: commitments, audits, reports, challenges, openings and receipts over a real broker.

The devices run here. While they fill the broker's queue, the gateway's process is paused, so that it always finds a full queue. Its CPU
time counts from the first commitment to the last receipt.
"""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from peel_core import encode_many
from peel_core.coin_device import CoinDevice
from peel_core.topics import device_topic, fleet_topic
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.model.verdict import Verdict
from peel_gateway.settings import Settings
from peel_research.bench.load import FLEET, cpu_seconds, publish, rss_mb
from peel_tools.profiles.drafts import Draft
from peel_tools.servers.broker import AnyBroker, Broker
from peel_tools.servers.gateway import GatewayProcess, Site
from peel_tools.simulation.session import fleet_of

__all__ = ["measure"]

_BUCKET_SECONDS = 10
_PER_BATCH = 24
"""Numbers of a batch that its audit leaves for reports."""
_OPENINGS = 11
"""Openings in a payload, as devices send them."""
Send = Callable[[Sequence[tuple[str, bytes]]], None]
_PATIENCE = 300.0
_RESEND_SECONDS = 15.0
_POLL_SECONDS = 0.2


class _Fleet:
    """Devices with verified coins, and the receipts that they get."""

    def __init__(self, folder: Path, devices: int, k: int) -> None:
        rows = [{"name": f"a{place}", "kind": "mean", "low": 0, "high": 1} for place in range(k)]
        path = folder.with_name("bench.toml")
        draft = Draft(
            name=FLEET, attributes=rows, quota=6_000, period=1000, verify=True, offline=1, bucket=_BUCKET_SECONDS
        )
        path.write_text(draft.text(), encoding="utf-8")
        self.fleet = fleet_of(folder, FLEET, [path], {FLEET: devices})
        snapshot = take_snapshot(self.fleet)
        (self._profile,) = snapshot.profiles
        ring = snapshot.keyring
        self._ids = ring.device_ids
        self._keys = ring.keys.of(ring.last_bundle)
        self._devices = {
            int(device): CoinDevice(self._profile, int(device), ring.keys.of([ring.last_bundle[place]]))
            for place, device in enumerate(ring.device_ids)
        }
        self._topics = {device: device_topic(FLEET, device, "report") for device in self._devices}
        self._lock = threading.Lock()
        self._news = set(self._devices)
        """Devices that may have something to send."""
        self._sent: set[bytes] = set()

    def listen(self, broker: AnyBroker) -> paho.Client:
        """Give the devices their receipts from now on."""
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id="bench-devices")
        client.on_message = self._on_message
        client.connect(broker.host, broker.port)
        client.subscribe(fleet_topic(FLEET, "+", "+", "receipt"))
        client.loop_start()
        return client

    def _on_message(self, client: paho.Client, userdata: object, message: paho.MQTTMessage) -> None:
        with self._lock:
            device = int(message.topic.split("/")[-2], 16)
            self._devices[device].receive(bytes(message.payload))
            self._news.add(device)

    def exchange(self, send: Send, ended: Callable[[CoinDevice], bool]) -> None:
        """Send what the devices have to send until a condition holds for each. After a pause they send it again, as real ones do."""
        deadline, again = time.monotonic() + _PATIENCE, time.monotonic() + _RESEND_SECONDS
        while True:
            with self._lock:
                messages = list(self._unsent())
                done = not messages and all(map(ended, self._devices.values()))
            if done:
                return
            send(messages)
            now = time.monotonic()
            if messages:
                again = now + _RESEND_SECONDS
            elif now > deadline:
                raise RuntimeError(f"the gateway sent no receipts for {_PATIENCE:g} s")
            elif now > again:
                with self._lock:
                    self._sent.clear()
                    self._news.update(self._devices)
            time.sleep(_POLL_SECONDS)

    def _unsent(self) -> Iterator[tuple[str, bytes]]:
        for device in self._news:
            frames = [frame for frame in self._devices[device].messages() if frame not in self._sent]
            self._sent.update(frames)
            for begin in range(0, len(frames), _OPENINGS):
                yield self._topics[device], b"".join(frames[begin : begin + _OPENINGS])
        self._news.clear()

    @staticmethod
    def ready(coins: CoinDevice) -> bool:
        """Return whether a device has its reserve of approved numbers."""
        return len(list(coins.free_approved())) >= coins.reserve

    @property
    def batches(self) -> int:
        """Batches of all devices, whose numbers are all unused."""
        free = sum(len(list(coins.free_approved())) for coins in self._devices.values())
        return free // _PER_BATCH

    def reports(self) -> list[tuple[str, bytes]]:
        """Return a report under each number of one batch of each device, the devices in turn."""
        with self._lock:
            numbers = np.array([list(coins.free_approved())[:_PER_BATCH] for coins in self._devices.values()]).T
            who = np.tile(np.arange(len(self._devices)), _PER_BATCH)
            seeds = np.stack(
                [coins.seeds(own) for coins, own in zip(self._devices.values(), numbers.T, strict=True)], axis=1
            )
            for coins, own in zip(self._devices.values(), numbers.T.tolist(), strict=True):
                for number in own:
                    coins.reported(number)
            self._news.update(self._devices)
        frames = encode_many(
            self._profile,
            self._ids[who],
            self._keys.of(who),
            numbers.reshape(-1),
            np.zeros((len(who), self._profile.k), np.int32),
            entropy=os.urandom(64),
            coin_seeds=np.ascontiguousarray(seeds.reshape(-1, 16)),
        )
        topics = list(self._topics.values())
        return [(topics[place], frame.tobytes()) for place, frame in zip(who.tolist(), frames, strict=True)]


def measure(*, devices: int = 2000, k: int = 4, rounds: int = 2) -> dict[str, Any]:
    """Return the figures of ``peel bench ingest --verified``: each round, every device commits to a batch and reports under it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "broker").mkdir()
        fleet, broker = _Fleet(folder / "fleet", devices, k), Broker(folder=folder / "broker", embedded=False)
        settings = {
            "http_port": 0,
            "batch_seconds": Settings().batch_seconds,
            "store_bucket_seconds": _BUCKET_SECONDS,
        }
        with Site(folder, fleet.fleet, broker) as site:
            gateway = site.add_gateway(settings=settings)
            gateway.start(until="started")
            client = fleet.listen(broker)
            per_batch = _batch_bytes(fleet, broker, gateway)
            spent = [_round(fleet, broker, gateway) for _ in range(rounds + 1)][1:]  # the first one fills the reserve
            client.disconnect()
            client.loop_stop()
            assert gateway.pid is not None
            rss = rss_mb(gateway.pid)
            gateway.stop()
            with gateway.store() as store:
                counted = store.counts().verdicts[Verdict.ACCEPTED]
    reports = _PER_BATCH * devices
    if counted != reports * (rounds + 1):
        raise RuntimeError(f"{counted} of {reports * (rounds + 1)} reports count")
    each = 1e6 * float(np.median(spent)) / reports
    return {
        "verified": True,
        "k": k,
        "devices": devices,
        "reports": reports * rounds,
        "verified_reports_per_s": round(1e6 / each),
        "cpu_us_per_report": round(each, 2),
        "rss_mb": round(rss, 1),
        "store_bytes_per_batch": round(per_batch),
    }


def _batch_bytes(fleet: _Fleet, broker: AnyBroker, gateway: GatewayProcess) -> float:
    """Let each device fill its reserve of approved numbers. Return the bytes in the database per batch."""
    before = _database_bytes(gateway)
    fleet.exchange(lambda messages: publish(broker, messages), _Fleet.ready)
    return (_database_bytes(gateway) - before) / fleet.batches


def _database_bytes(gateway: GatewayProcess) -> int:
    """Return the size of the database. The gateway is restarted for that, so that nothing is in the write-ahead log."""
    gateway.stop()
    with gateway.store() as store:
        size = store.size_bytes()
    gateway.start(until="started")
    gateway.wait_for(lambda: gateway.connections() == 2, what="its connections to the broker")
    return size


def _round(fleet: _Fleet, broker: AnyBroker, gateway: GatewayProcess) -> float:
    """Let each device commit, report and open. Return the gateway's CPU seconds."""
    pid = gateway.pid
    assert pid is not None

    def send(messages: Sequence[tuple[str, bytes]]) -> None:
        if messages:
            os.kill(pid, signal.SIGSTOP)
            try:
                publish(broker, messages)
            finally:
                os.kill(pid, signal.SIGCONT)

    before = cpu_seconds(pid)
    fleet.exchange(send, _Fleet.ready)
    reports = fleet.reports()
    time.sleep(
        _BUCKET_SECONDS - time.time() % _BUCKET_SECONDS
    )  # if the machine is idle, all reports are in one time bucket
    send(reports)
    fleet.exchange(send, lambda coins: coins.unopened == 0)
    return cpu_seconds(pid) - before
