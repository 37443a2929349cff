# SPDX-License-Identifier: MIT
"""The application and receipts, over a real broker: a frame is kept until a valid receipt settles it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import paho.mqtt.client as paho
import pytest
from inbox import Inbox
from paho.mqtt.enums import CallbackAPIVersion

from host_board import HostBoard, PacedBoard, bundle
from peel_core.frame import NUMBER
from peel_core.receipts import write_receipts
from peel_core.topics import device_topic
from peel_device.app import App
from peel_device.config import Config
from peel_device.link import RECEIPTS_AT_ONCE
from peel_device.timing import RESEND_FIRST_MS
from peel_tools.servers.broker import Broker
from power_cut import MemoryFiles

DEVICE = 0x2A
KEY = bytes.fromhex("0f1e2d3c4b5a69788796a5b4c3d2e1f0")
TOPIC = device_topic("lab", DEVICE, "receipt")


def receipt(upto: int, *runs: tuple[int, int], device: int = DEVICE, key: bytes = KEY) -> bytes:
    return write_receipts([device], np.frombuffer(key, np.uint8).reshape(1, 16), [upto], runs, [len(runs)])[0]


class Publisher:
    """A client that may publish: a gateway, or an attacker."""

    def __init__(self, broker: Broker) -> None:
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.connect(broker.host, broker.port)
        self._client.loop_start()

    def say(self, payload: bytes, *, retain: bool = True) -> None:
        self._client.publish(TOPIC, payload, qos=1, retain=retain).wait_for_publish(10)

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.fixture
def gateway(broker: Broker) -> Iterator[Publisher]:
    publisher = Publisher(broker)
    yield publisher
    publisher.stop()


def boot(core: ModuleType, broker: Broker, files: MemoryFiles, board: HostBoard | None = None, **changes: Any) -> App:
    settings = Config(bundle(mqtt__port=broker.port, interval_s=3600, **changes))
    app = App(settings, core, board or HostBoard(), files, "peel")
    app.start()
    return app


def kept(files: MemoryFiles) -> list[int]:
    """Return the numbers of the frames on flash."""
    names = [path.rpartition("/")[2] for path in files.kept if "/outbox/" in path]
    return sorted(int(name, 16) for name in names if len(name) == 12)


def until(app: App, condition: Any, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        app.link.tend()
        time.sleep(0.01)


def test_a_report_is_kept_until_the_gateway_has_it(core: ModuleType, broker: Broker, gateway: Publisher) -> None:
    files = MemoryFiles()
    app = boot(core, broker, files)
    for _ in range(3):
        app.report()
    app.step()
    assert (kept(files), app.outbox.waiting, app.outbox.unconfirmed) == ([1, 2, 3], 0, 3)
    gateway.say(receipt(1, (3, 3)))
    until(app, lambda: len(app.outbox) == 1)
    assert kept(files) == [2], "what the receipt does not name stays"
    gateway.say(receipt(3))
    until(app, lambda: not len(app.outbox))
    assert app.refused_receipts == 0


def test_with_confirm_broker_the_acknowledgement_is_enough(core: ModuleType, broker: Broker) -> None:
    files = MemoryFiles()
    app = boot(core, broker, files, confirm="broker")
    app.step()
    assert kept(files) == []


def test_after_deep_sleep_the_retained_receipt_comes_before_anything_is_sent(
    core: ModuleType, broker: Broker, inbox: Inbox, gateway: Publisher
) -> None:
    files = MemoryFiles()
    for wake in range(1, 6):
        app = boot(core, broker, files, sleep="deep")
        with pytest.raises(SystemExit):
            app.step()
        gateway.say(receipt(wake))
    assert [NUMBER.of(frame) for frame in inbox.frames(5)] == [1, 2, 3, 4, 5], "each once"
    assert kept(files) == [5]


def test_a_flash_that_was_put_back_uses_no_number_again(
    core: ModuleType, broker: Broker, inbox: Inbox, gateway: Publisher
) -> None:
    """An old image of the flash has an old ledger. The retained receipt proves it before anything is sent."""
    day = 24 * 3600 * 1000
    settings: dict[str, Any] = {"outbox": 50, "profile__quota": 400}
    files, board = MemoryFiles(), PacedBoard()
    app = boot(core, broker, files, board, **settings)
    app.report()
    image = MemoryFiles(files.kept)
    for _ in range(39):
        board.paces.at += day
        app.report()
    app.link.drain(app.outbox, app.birth())
    assert [NUMBER.of(frame) for frame in inbox.frames(40)] == list(range(1, 41))
    gateway.say(receipt(39))  # the gateway has stored more than this
    app.link.stop()

    app = boot(core, broker, image, board, **settings)
    assert app.ledger.next_number < 39, "or there is nothing to find out"
    for _ in range(20):
        board.paces.at += day
        app.report()
    assert kept(image)[-1] > 40, "as far as the device knows, these numbers are new"
    app.link.drain(app.outbox, app.birth())
    assert app.ledger.next_number == 39 + 50 + 1
    assert kept(image) == [], "nothing that this run has made is sent"
    board.paces.at += day
    app.report()
    app.link.drain(app.outbox, app.birth())
    assert [NUMBER.of(frame) for frame in inbox.frames(1)] == [90]
    assert boot(core, broker, image, **settings).ledger.next_number > 90, "it is on flash"


def test_through_a_long_outage_deep_sleep_sends_little_and_loses_nothing(
    core: ModuleType, broker: Broker, inbox: Inbox
) -> None:
    files = MemoryFiles()
    for _ in range(60):
        with pytest.raises(SystemExit):
            boot(core, broker, files, sleep="deep", profile__quota=4000).step()
    assert kept(files) == list(range(1, 61))
    inbox.wait(60)
    time.sleep(0.3)
    frames = sum(len(payload) for topic, payload in inbox.messages if topic.endswith("report")) / 38
    assert frames < 60 * 20, "without any memory it would be 1,830"


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(receipt(2**47, key=bytes(16)), id="forged"),
        pytest.param(receipt(2**47, device=DEVICE + 64), id="another device's"),
        pytest.param(receipt(2**47)[:-1], id="truncated"),
        pytest.param(receipt(2**47) + bytes(12), id="a run added"),
        pytest.param(bytes(3000), id="oversized"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\x10" + bytes(18), id="zeros"),
    ],
)
def test_what_is_no_receipt_settles_nothing(
    core: ModuleType, broker: Broker, gateway: Publisher, payload: bytes
) -> None:
    files = MemoryFiles()
    app = boot(core, broker, files)
    app.step()
    gateway.say(payload, retain=False)
    until(app, lambda: app.refused_receipts == 1)
    assert (kept(files), app.link.faults) == ([1], 0)
    gateway.say(receipt(1))
    until(app, lambda: not len(app.outbox))


def test_a_message_too_large_to_hold_drops_the_link_and_nothing_else(
    core: ModuleType, broker: Broker, gateway: Publisher
) -> None:
    files = MemoryFiles()
    app = boot(core, broker, files)
    app.step()
    gateway.say(bytes(200_000), retain=False)
    until(app, lambda: app.link.faults == 1)
    assert kept(files) == [1]


def test_an_old_receipt_again_says_less_and_harms_nobody(core: ModuleType, broker: Broker, gateway: Publisher) -> None:
    files = MemoryFiles()
    app = boot(core, broker, files)
    old = receipt(1)
    for _ in range(3):
        app.report()
    app.step()
    gateway.say(receipt(2))
    until(app, lambda: len(app.outbox) == 1)
    gateway.say(old)
    gateway.say(receipt(3))
    until(app, lambda: not len(app.outbox))


def test_a_flood_of_receipts_costs_bounded_work_and_no_report(
    core: ModuleType, broker: Broker, gateway: Publisher, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = MemoryFiles()
    app = boot(core, broker, files)
    app.step()
    calls = 0

    def count(payload: bytes) -> None:
        nonlocal calls
        calls += 1
        app.settle(payload)

    monkeypatch.setattr(app.link, "_receive", count)
    forged = receipt(2**47, key=bytes(16))
    for _ in range(200):
        gateway.say(forged, retain=False)
    inbox.wait(200)  # another subscriber has them, so the broker has sent them to the device too
    app.link.tend()
    assert calls == RECEIPTS_AT_ONCE, "one look takes so many"
    calls = 0
    app.report()
    app.link.drain(app.outbox, app.birth())
    assert calls == RECEIPTS_AT_ONCE, "a broker that sends more during one exchange is disconnected"
    assert (app.link.faults, app.link.up) == (1, False)
    assert kept(files) == [1, 2]


def test_without_a_receipt_the_same_bytes_go_again_and_again(core: ModuleType, broker: Broker, inbox: Inbox) -> None:
    files, board = MemoryFiles(), PacedBoard()
    app = boot(core, broker, files, board)
    app.step()
    first = inbox.frames(1)
    for _ in range(4 * RESEND_FIRST_MS // 5000):
        board.paces.at += 5000
        app.step()
    assert inbox.frames(2) == 2 * first
    assert app.ledger.next_number == 2, "and spend nothing"


def test_when_receipts_are_swallowed_what_the_broker_has_goes_first_and_is_counted(
    core: ModuleType, broker: Broker
) -> None:
    files = MemoryFiles()
    app = boot(core, broker, files, outbox=4)
    for _ in range(6):
        app.report()
        app.link.drain(app.outbox, app.birth())
    assert kept(files) == [3, 4, 5, 6]
    assert (app.outbox.dropped, app.birth()["unconfirmed"]) == (2, 4)


def test_the_bundle_says_who_confirms() -> None:
    assert Config(bundle()).confirm == "gateway"
    assert Config(bundle(confirm="broker")).confirm == "broker"
