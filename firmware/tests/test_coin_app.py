# SPDX-License-Identifier: MIT
"""Verified coins in the whole application: deep sleep, the watchdog, and a real broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import paho.mqtt.client as paho
import pytest
from coin_gateway import DirectLink, Gateway
from paho.mqtt.enums import CallbackAPIVersion
from test_coins import VERIFIED, QuickBoard, World, verified

from host_board import HostBoard, bundle
from peel_core.coins import AUDIT_ANSWER, COMMITMENT, OPENING
from peel_core.topics import device_topic
from peel_device.app import AWAKE_MS, App
from peel_tools.device.flash import Changes, Flash
from peel_tools.device.process import DeviceProcess
from peel_tools.flashing.device_files import find_sources
from peel_tools.servers.broker import Broker
from power_cut import MemoryFiles

INTERVAL_MS = 60_000


class SleepyBoard(QuickBoard):
    """A board whose deep sleep ends in a restart."""

    def __init__(self) -> None:
        super().__init__()
        self.woke = False

    def deep_sleep(self, milliseconds: int) -> None:
        self.paces.at += milliseconds
        self.woke = True
        super().deep_sleep(milliseconds)

    def woke_from_sleep(self) -> bool:
        return self.woke


class Sleeper(World):
    """A device that sleeps between reports. Receipts that come while it sleeps are retained."""

    def __init__(self, core: ModuleType, **changes: Any) -> None:
        super().__init__(core, sleep="deep", interval_s=INTERVAL_MS // 1000, profile__quota=1000, **changes)

    def boot(self, **changes: Any) -> None:
        self.board: QuickBoard = self.__dict__.get("sleepy") or self.__dict__.setdefault("sleepy", SleepyBoard())
        super().boot(**changes)
        retained = self.gateway.receipt()
        self.sent: list[bytes] = []
        self.link = DirectLink(self.app, self._deliver, lambda: retained)
        self.app.link = self.link  # type: ignore[assignment]

    def _deliver(self, payload: bytes) -> None:
        self.sent.append(payload)
        self.gateway.take(payload)

    def wake(self) -> list[int]:
        """Boot and run until the device sleeps. Return the types of what it sent."""
        self.boot()
        with pytest.raises(SystemExit):
            self.app.run()
        return [payload[1] for payload in self.sent]


def test_a_device_that_sleeps_answers_what_the_retained_receipt_asks(core: ModuleType) -> None:
    sleeper = Sleeper(core)
    assert sleeper.wake() == [COMMITMENT]
    assert AUDIT_ANSWER in sleeper.wake()
    sent = sleeper.wake()
    assert 0 in sent, "it reports in the same wake in which numbers were approved"
    sleeper.gateway.end_bucket()
    kinds = set(sleeper.wake() + sleeper.wake() + sleeper.wake())
    for _ in range(20):
        sleeper.gateway.end_bucket()
        kinds |= set(sleeper.wake())
    assert OPENING in kinds
    assert len(sleeper.gateway.counted) > 10
    assert sleeper.app.throttled <= 2


def test_without_a_gateway_a_sleeping_device_repeats_little(core: ModuleType) -> None:
    sleeper = Sleeper(core)
    sleeper.gateway.take = lambda payload: None  # type: ignore[method-assign]
    kinds = [kind for _ in range(60) for kind in sleeper.wake()]
    assert 5 <= kinds.count(COMMITMENT) <= 30, "a quarter of the wakes"
    awake = sleeper.board.paces.at - 60 * INTERVAL_MS
    assert awake < 60 * AWAKE_MS / 10


def test_the_watchdog_is_fed_while_roots_are_made(core: ModuleType) -> None:
    world = World(core)
    world.link.online = False
    before = world.board.fed
    world.app.step()
    assert world.coins.unapproved is not None
    assert world.board.fed - before >= 32


class BrokerGateway:
    """The honest gateway behind a broker. It challenges after every report."""

    def __init__(self, broker: Broker, gateway: Gateway) -> None:
        self.gateway = gateway
        self.lock = threading.Lock()
        self.failure: BaseException | None = None
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._on_message
        self._client.connect(broker.host, broker.port)
        self._client.subscribe(device_topic("lab", gateway.config.device, "report"), qos=1)
        self._client.loop_start()

    def _on_message(self, client: Any, userdata: Any, message: Any) -> None:
        with self.lock:
            try:
                self.gateway.take(message.payload)
                self.gateway.end_bucket()
                topic = device_topic("lab", self.gateway.config.device, "receipt")
                client.publish(topic, self.gateway.receipt(), qos=1, retain=True)
            except BaseException as failure:
                self.failure = failure

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def behind_broker(broker: Broker) -> Iterator[BrokerGateway]:
    gateway = BrokerGateway(broker, Gateway(verified(mqtt__port=broker.port, interval_s=0.01, profile__quota=100_000)))
    yield gateway
    gateway.stop()


def test_over_a_real_broker(core: ModuleType, broker: Broker, behind_broker: BrokerGateway) -> None:
    files = MemoryFiles()
    settings = behind_broker.gateway.config
    deadline = time.monotonic() + 60
    for _ in range(3):
        app = App(settings, core, HostBoard(), files, "peel")
        app.start()
        wanted = len(behind_broker.gateway.counted) + 50
        while len(behind_broker.gateway.counted) < wanted:
            assert behind_broker.failure is None, behind_broker.failure
            assert time.monotonic() < deadline
            app.step()
        assert (app.link.faults, app.lost, app.refused_receipts) == (0, 0, 0)
        app.link.stop()
    assert not behind_broker.gateway.refused


def test_on_micropython_killed_at_any_moment(
    broker: Broker, behind_broker: BrokerGateway, tmp_path: Path, rng: np.random.Generator
) -> None:
    """The unix port with the core built in. The gateway asserts that no answer changes, and that all are right."""
    flash = Flash(tmp_path / "flash")
    changes = VERIFIED | {"mqtt__port": broker.port, "interval_s": 0.01, "profile__quota": 100_000}
    flash.install(bundle(**changes), find_sources(), Changes())
    process = DeviceProcess(flash, micropython=True)
    gateway, deadline = behind_broker.gateway, time.monotonic() + 120
    for life in range(12):
        process.start()
        wanted = len(gateway.counted) + (30 if life % 3 == 2 else 0)
        end = time.monotonic() + rng.uniform(0.05, 1)
        while len(gateway.counted) < wanted or time.monotonic() < end:
            assert behind_broker.failure is None, behind_broker.failure
            assert time.monotonic() < deadline, process.log()
            time.sleep(0.01)
        process.kill()
        assert "Traceback" not in process.log(), process.log()
    assert not gateway.refused
    assert len(gateway.counted) > 120
