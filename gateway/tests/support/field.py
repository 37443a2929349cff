# SPDX-License-Identifier: MIT
"""A field: a real broker, a fleet folder whose devices use the real encoder, and gateways or workers as processes."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import paho.mqtt.client as paho
import pytest
from helpers import climate_profile, wait_until
from paho.mqtt.enums import CallbackAPIVersion

from peel_core import Keys, encode_many
from peel_core.frame import DEVICE, NUMBER
from peel_core.receipts import Receipt, read_receipt
from peel_core.topics import device_topic, fleet_topic
from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.model.tables import Counts
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import read_log
from peel_hil.listener import Listener
from peel_research.soak.clock import find_faketime
from peel_tools.servers.broker import Broker, find_mosquitto
from peel_tools.servers.gateway import GatewayProcess, Site

DEVICES = 20
LEASE_SECONDS = 1.5
PARTITIONS = 8
_AT_ONCE = 40
_PAUSE_SECONDS = 0.1

HEALTHY = {"status": "ok", "causes": [], "dead_letters": 0, "lag_seconds": 0, "receipt_lag_seconds": 0}
"""The answer of /healthz for an idle gateway."""


@contextlib.contextmanager
def locked_store(gateway: GatewayProcess) -> Iterator[None]:
    """Nothing can be stored meanwhile."""
    holder = sqlite3.connect(gateway.store_path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        holder.execute("ROLLBACK")
        holder.close()


SetClock = Callable[[str], object]
"""Sets the wall clock that gateways see, as in "-90d"."""


def fake_clock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Give gateways that start from now on a wall clock that can be set; their steady clock stays the machine's."""
    library = find_faketime()
    if library is None:
        pytest.skip("libfaketime is not installed. On Debian: apt-get install faketime")
    clock = folder / "clock"
    clock.write_text("+0d")
    for name, value in (
        ("LD_PRELOAD", str(library)),
        ("FAKETIME_TIMESTAMP_FILE", str(clock)),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ):
        monkeypatch.setenv(name, value)
    return clock.write_text


class Publisher:
    """Publishes with QoS 1 and returns when the broker has acknowledged everything."""

    def __init__(self, port: int) -> None:
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
        self._client.max_inflight_messages_set(500)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        sent = [self._client.publish(topic, payload, qos=1) for topic, payload in messages]
        for each in sent:
            each.wait_for_publish(30)
            assert each.is_published()

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def retained(port: int, topic: str) -> bytes | None:
    """Return the broker's retained message of a topic, or None."""
    found: list[bytes] = []
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.on_message = lambda _client, _data, message: found.append(bytes(message.payload))
    client.on_connect = lambda connected, *_: connected.subscribe(topic, 1)
    client.connect("127.0.0.1", port)
    client.loop_start()
    deadline = time.monotonic() + 10
    while not found and time.monotonic() < deadline:
        time.sleep(0.02)
    client.disconnect()
    client.loop_stop()
    return found[0] if found else None


class Field(Site):
    """A site whose devices are bare encoders; tests add the gateways they want."""

    def __init__(self, folder: Path, broker: Broker, chance: np.random.Generator) -> None:
        (folder / "climate.toml").write_text(climate_profile(quota=1_000_000, period=1, lifetime=10**9))
        super().__init__(folder, Fleet.create(folder / "fleet", "field", [folder / "climate.toml"]), broker)
        self.fleet.enrol("climate", count=DEVICES)
        self.profile = self.fleet.profiles()["climate"]
        self._keyring = take_snapshot(self.fleet).keyring
        self._next = dict.fromkeys(range(1, DEVICES + 1), 1)
        self._chance = chance

    def write_alerts(self, *tables: str, gateway: str = "gateway") -> None:
        """Write alerts into the settings file of a gateway; each table is the lines of one, without the heading."""
        folder = self.folder / gateway
        folder.mkdir(exist_ok=True)
        (folder / "gateway.toml").write_text("".join(f"[[alert]]\n{table}\n" for table in tables), encoding="utf-8")

    def new_gateway(self, name: str = "gateway", **settings: object) -> GatewayProcess:
        """A gateway with quick reflexes, not started yet; killed at the end of the test if it still runs."""
        return self.add_gateway(name, {"mqtt_backoff_seconds": 0.5, "fleet_reload_seconds": 0.2, **settings})

    def reports(
        self,
        count: int,
        *,
        devices: Sequence[int] | None = None,
        odds: tuple[int, int] | None = None,
        readings: Sequence[int] = (0, 0),
    ) -> list[tuple[str, bytes]]:
        """Fresh reports, one frame per message, from the devices in turn; `odds` are other than the profile's.

        `readings` are Q15, one for each question.
        """
        chosen = list(devices or range(1, DEVICES + 1))
        who = [chosen[i % len(chosen)] for i in range(count)]
        numbers = []
        for device in who:
            numbers.append(self._next[device])
            self._next[device] += 1
        ids = np.array(who, np.uint32)
        keys = self.keys(ids, numbers)
        rows = np.tile(np.array(readings, np.int32), (count, 1))
        frames = encode_many(self.profile, ids, keys, numbers, rows, entropy=self._chance.bytes(64), odds=odds)
        return [(self.topic(device), frame.tobytes()) for device, frame in zip(who, frames, strict=True)]

    def reports_of(self, name: str, attributes: str, readings: Sequence[int], count: int) -> list[tuple[str, bytes]]:
        """Reports of one new device with a new profile; it always has the same readings, one per question."""
        head = f'name = "{name}"\nepsilon = 1.0\nverify = false\nseed = 1\nquota = 1000000\nperiod = 1\n'
        (self.fleet.folder / "profiles" / f"{name}.toml").write_text(head + attributes, encoding="utf-8")
        (device,) = self.fleet.enrol(name)
        ids, numbers = np.full(count, device.id, np.uint32), np.arange(1, count + 1)
        rows = np.tile(np.array(readings, np.int32), (count, 1))
        profile, keys = self.fleet.profiles()[name], self.keys(ids, numbers)
        frames = encode_many(profile, ids, keys, numbers, rows, entropy=self._chance.bytes(64))
        return [(self.topic(device.id), frame.tobytes()) for frame in frames]

    def keys(self, devices: npt.ArrayLike, numbers: npt.ArrayLike) -> Keys:
        """The keys that reports of these devices have."""
        bundles = self._keyring.find(devices, numbers)
        if np.any(bundles < 0):  # enrolled since; a device that the registry was made to forget keeps its keys
            self._keyring = take_snapshot(self.fleet).keyring
            bundles = self._keyring.find(devices, numbers)
        assert np.all(bundles >= 0)
        return self._keyring.keys.of(bundles)

    def topic(self, device: int) -> str:
        return device_topic(self.fleet.name, device, "report")

    def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Hand messages to the broker; all are acknowledged by it on return."""
        publisher = Publisher(self.broker.port)
        try:
            publisher.send(messages)
        finally:
            publisher.close()

    def counts(self, gateway: GatewayProcess) -> Counts:
        """Return the committed counts, read from the file."""
        with gateway.store() as store:
            return store.counts()

    def accepted(self, gateway: GatewayProcess) -> int:
        """Reports that count."""
        return self.counts(gateway).verdicts[Verdict.ACCEPTED]

    def audit(self, gateway: GatewayProcess, published: Sequence[tuple[str, bytes]]) -> None:
        """A stopped gateway's log has just these reports, all accepted, and every number it publishes follows from the log."""
        assert gateway.pid is None, "stop it first"
        recount = gateway.command("recount")
        assert recount.returncode == 0, recount.stdout + recount.stderr
        with gateway.store() as store:
            log = read_log(store)
        rows = list(zip(log.device.tolist(), log.number.tolist(), log.verdict.tolist(), strict=True))
        sent = [(DEVICE.of(frame), NUMBER.of(frame)) for _, frame in published]
        assert rows == [(device, number, Verdict.ACCEPTED) for device, number in sorted(sent)]
        assert self.accepted(gateway) == len(published)

    def wait_accepted(self, gateway: GatewayProcess, count: int, seconds: float = 120.0) -> None:
        """Wait until exactly this many reports count, and fail if it becomes more."""
        gateway.wait_for(lambda: gateway.summary()["totals"]["accepted"] >= count, seconds)
        assert gateway.summary()["totals"]["accepted"] == count


class Devices(Listener):
    """All devices of a field, as receivers of receipts."""

    def __init__(self, field: Field) -> None:
        super().__init__((field.broker.host, field.broker.port), fleet_topic(field.fleet.name, "+", "+", "receipt"))
        self._field = field

    def told(self, device: int) -> list[Receipt]:
        """Return the receipts that one device got, as it reads them."""
        keys = self._field.keys([device], [1])
        mine = [payload for topic, payload in self.messages if topic.endswith(f"/{device:08x}/receipt")]
        return [read_receipt(keys.receipt[0].tobytes(), device, payload) for payload in mine]


class WorkerPool:
    """Several workers of a field. All of them, and all commands, use one schema of a PostgreSQL server."""

    def __init__(self, field: Field, url: str, **settings: object) -> None:
        self.field = field
        self._settings: dict[str, object] = {
            "store_url": url,
            "store_partitions": PARTITIONS,
            "worker_lease_seconds": LEASE_SECONDS,
            "publish_seconds": 0.5,
            **settings,
        }
        self.processes: list[GatewayProcess] = []

    def start(self, count: int = 1) -> list[GatewayProcess]:
        """Start further workers."""
        new = []
        for _ in range(count):
            name = f"worker{len(self.processes)}"
            new.append(self.field.new_gateway(name, worker_name=name, **self._settings))
            self.processes.append(new[-1].start())
        return new

    def owned(self, worker: GatewayProcess) -> list[int]:
        """Return the partitions that a worker says it serves; none if it does not answer."""
        summary: Any = worker.ask("/api/summary") if worker.pid is not None else None
        return list(summary["worker"]["partitions"]) if summary else []

    def wait_shared(self, *workers: GatewayProcess, seconds: float = 40.0) -> list[int]:
        """Wait until these workers serve all partitions between them, each as many as is fair; return how many each has."""
        fair = {PARTITIONS // len(workers), -(-PARTITIONS // len(workers))}

        def settled() -> bool:
            found = [self.owned(worker) for worker in workers]
            all_of_them = sorted(partition for partitions in found for partition in partitions)
            return all_of_them == list(range(PARTITIONS)) and set(map(len, found)) <= fair

        wait_until(settled, f"{len(workers)} workers with all partitions", seconds)
        return [len(self.owned(worker)) for worker in workers]

    def leases(self, worker: GatewayProcess) -> Any:
        """Return the output of `peel gateway workers --json`."""
        done = worker.command("workers", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def accepted(self) -> int:
        """Return the number of accepted reports, in all partitions."""
        with self.processes[0].store() as archive:
            return archive.counts().verdicts.get(Verdict.ACCEPTED, 0)

    def audit(self, published: Sequence[tuple[str, bytes]], seconds: float = 60.0) -> None:
        """Check that every report counted once, no device is exposed, and all sums follow from the logs."""
        wait_until(lambda: self.accepted() >= len(published), f"acceptance of {len(published)} reports", seconds)
        for worker in self.processes:
            if worker.pid is not None:
                assert worker.stop() == 0, worker.log_tail()
        with self.processes[0].store() as archive:
            counts = archive.counts()
            found = {verdict: count for verdict, count in counts.verdicts.items() if count}
            assert found.pop(Verdict.ACCEPTED) == len(published)
            assert set(found) <= {Verdict.REDELIVERED}, found
            assert counts.exposed_devices == 0
            logged = archive.device_reports()
        assert sum(by_verdict.get(Verdict.ACCEPTED, 0) for by_verdict in logged.values()) == len(published)
        recount = self.processes[0].command("recount")
        assert recount.returncode == 0, recount.stdout + recount.stderr


class Load:
    """Publishes reports, some at a time, while it is entered."""

    def __init__(self, field: Field) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self._field = field
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(_PAUSE_SECONDS):
            batch = self._field.reports(_AT_ONCE)
            while not self._published(batch):  # again and again, as devices do: what comes twice counts once
                time.sleep(_PAUSE_SECONDS)
            self.sent += batch

    def _published(self, batch: Sequence[tuple[str, bytes]]) -> bool:
        try:
            self._field.publish(batch)
        except (OSError, RuntimeError):
            return False
        return True


def open_broker(folder: Path, **options: Any) -> Broker:
    """A running broker: mosquitto, unless the test wants the embedded one."""
    folder.mkdir()
    if not options.get("embedded") and find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    broker = Broker(folder=folder, **{"embedded": False, **options})
    broker.start()
    return broker


MakeField = Callable[..., Field]
"""From options of the broker."""
