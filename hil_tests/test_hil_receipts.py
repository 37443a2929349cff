# SPDX-License-Identifier: MIT
"""The broker loses reports that it has acknowledged: the board keeps them and resends until the gateway confirms.

With `confirm` = `broker` the same loss is final, which shows that there was one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from peel_core.frame import NUMBER
from peel_core.receipts import write_receipts
from peel_core.topics import device_topic
from peel_hil.device import Device
from peel_hil.duts import Dut
from peel_hil.listener import Listener, Tap
from peel_hil.site import TRACES, BoardSite

TIMEOUT_MS = 1500
RESEND_MS = 2000
REPORTS = 20


def killed(site: BoardSite) -> None:
    """Kill the broker with SIGKILL: unsaved messages are lost."""
    site.broker.kill()


def without_its_file(site: BoardSite) -> None:
    """Stop the broker normally and remove the file with its sessions."""
    site.broker.stop()
    (site.broker.folder / "mosquitto.db").unlink()


def accepted_numbers(site: BoardSite, reports: int) -> set[int]:
    """Return the numbers of the next reports that the broker takes."""
    with Tap(site.endpoint, site.profile.width) as tap:
        deadline = time.monotonic() + 60
        while len(tap.frames) < reports:
            assert time.monotonic() < deadline, "the board is silent"
            time.sleep(0.05)
        return {NUMBER.of(frame) for frame in tap.frames}


@pytest.mark.boards("mps2")
@pytest.mark.parametrize(
    ("lose", "confirm"),
    # A killed broker may have just saved everything, by chance: only one that forgets must lose.
    [(killed, "gateway"), (without_its_file, "gateway"), (without_its_file, "broker")],
)
def test_what_the_broker_has_acknowledged_and_lost(
    site: BoardSite,
    open_board: Callable[..., Dut],
    tmp_path: Path,
    lose: Callable[[BoardSite], None],
    confirm: str,
) -> None:
    dut = open_board(link=site.endpoint, folder=tmp_path / "board")
    device = Device(dut, site.enrol(TRACES, interval_s=0.1, outbox=500, confirm=confirm))
    device.provision()
    device.start(timeout_ms=TIMEOUT_MS, resend_ms=RESEND_MS)
    site.wait_for_accepted(5, 60)
    site.gateway.stop()
    taken = accepted_numbers(site, REPORTS)
    lose(site)
    site.broker.start()
    site.gateway.start()
    check_the_rest(site, device, taken, confirm)


@pytest.mark.boards("mps2")
@pytest.mark.parametrize("confirm", ["gateway", "broker"])
def test_reports_from_before_the_gateway_s_first_connection(
    site: BoardSite, open_board: Callable[..., Dut], tmp_path: Path, confirm: str
) -> None:
    dut = open_board(link=site.endpoint, folder=tmp_path / "board")
    device = Device(dut, site.enrol(TRACES, interval_s=0.1, outbox=500, confirm=confirm))
    device.provision()
    site.gateway.stop()
    without_its_file(site)
    site.broker.start()
    device.start(timeout_ms=TIMEOUT_MS, resend_ms=RESEND_MS)
    taken = accepted_numbers(site, REPORTS)
    site.gateway.start()
    check_the_rest(site, device, taken, confirm)


@pytest.mark.boards("mps2")
def test_a_client_that_may_publish_cannot_make_a_board_forget(
    site: BoardSite, open_board: Callable[..., Dut], tmp_path: Path
) -> None:
    dut = open_board(link=site.endpoint, folder=tmp_path / "board")
    device = Device(dut, site.enrol(TRACES, interval_s=0.1, outbox=500))
    device.provision()
    site.gateway.stop()
    device.start(timeout_ms=TIMEOUT_MS, resend_ms=RESEND_MS)
    accepted_numbers(site, 5)
    who, key = int(device.label, 16), bytes.fromhex(device.bundle["receipt_key"])
    for payload in (
        receipt(who, os.urandom(16)),  # forged
        receipt(who + 64, key),  # another device's
        receipt(who, key)[:-1],  # truncated
        receipt(who, key) + bytes(12),  # with a run added
        bytes(3000),  # oversized
        bytes(100_000),  # more than a board accepts: it disconnects and comes back
        *[receipt(who, os.urandom(16))] * 500,  # a flood
    ):
        publish(site, device_topic("lab", who, "receipt"), payload)
    taken = accepted_numbers(site, REPORTS)
    dut.reset()
    flash = device.flash()
    assert set(flash.frames) >= set(range(1, min(taken))), "all that it ever made"
    assert flash.dropped == 0
    site.gateway.start()
    device.start(timeout_ms=TIMEOUT_MS, resend_ms=RESEND_MS)
    site.wait(lambda: set(flash.frames) <= set(site.accepted(device.label)), "everything", 90)


def receipt(device: int, key: bytes) -> bytes:
    """Return a receipt that settles every number."""
    return write_receipts([device], np.frombuffer(key, np.uint8).reshape(1, 16), [2**47], np.zeros((0, 2)), [0])[0]


def publish(site: BoardSite, topic: str, payload: bytes) -> None:
    """Publish as any client can if the broker has no access list."""
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.connect(*site.endpoint)
    client.loop_start()
    client.publish(topic, payload, qos=1).wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


def check_the_rest(site: BoardSite, device: Device, taken: set[int], confirm: str) -> None:
    """Check that the reports taken while the gateway was away are stored once; or lost, if the broker's word was enough."""
    if confirm == "broker":
        last = max(taken)
        site.wait(lambda: max(site.accepted(device.label), default=0) > last, "reports after the loss", 90)
        assert taken - set(site.accepted(device.label)), "lost for good"
        return
    site.wait(lambda: taken <= set(site.accepted(device.label)), "what the broker had lost", 90)
    confirmed = len(site.accepted(device.label))
    with Listener(site.endpoint, device_topic("lab", int(device.label, 16), "receipt")) as receipts:
        site.wait(lambda: _upto(receipts) >= confirmed, "a receipt for all of it", 60)
    device.dut.reset()
    flash = device.flash()
    site.wait(lambda: set(site.accepted(device.label)) >= set(range(1, confirmed + 1)), "the last report")
    assert flash.dropped == 0
    assert not set(flash.frames) & set(range(1, min(taken))), "confirmed, and gone from the flash"
    assert set(site.verdicts()) <= {"accepted", "redelivered"}
    assert site.device_cause(device.label) is None


def _upto(receipts: Listener) -> int:
    """Return the number up to which the last receipt settles everything."""
    return int.from_bytes(receipts.messages[-1][1][5:11], "little") if receipts.messages else 0
