# SPDX-License-Identifier: MIT
"""Receipts of a running gateway on a real broker: retained, few, and never for what is not in the database."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from field import Devices, Field, locked_store

from peel_core.receipts import Receipt


@pytest.fixture
def devices(field: Field) -> Iterator[Devices]:
    with Devices(field) as listening:
        yield listening


def test_devices_are_told_at_once_and_then_not_too_often(field: Field, devices: Devices) -> None:
    gateway = field.new_gateway(mqtt_receipt_seconds=2, batch_seconds=0.01).start()
    started = time.monotonic()
    for count in range(1, 31):
        field.publish(field.reports(1, devices=[1]))
        field.wait_accepted(gateway, count)
    gateway.wait_for(lambda: devices.told(1)[-1:] == [Receipt(30)])
    elapsed = time.monotonic() - started
    receipts = devices.told(1)
    assert receipts[0].upto < 30, "at once"
    assert len(receipts) <= 2 + elapsed / 2
    assert [each.upto for each in receipts] == sorted({each.upto for each in receipts})
    assert f"peel_receipts_total {len(receipts)}.0" in gateway.fetch("/metrics")


def test_the_last_receipt_stays_and_a_new_gateway_goes_on(field: Field, devices: Devices) -> None:
    gateway = field.new_gateway(mqtt_receipt_seconds=0).start()
    first, second, third = field.reports(3, devices=[2])
    field.publish([first, third])
    gateway.wait_for(lambda: devices.told(2)[-1:] == [Receipt(1, ((3, 3),))])
    assert gateway.stop() == 0
    with Devices(field) as woken:
        woken.wait(1)
        assert woken.told(2) == [Receipt(1, ((3, 3),))], "retained"
    gateway.start()
    field.publish([second])
    gateway.wait_for(lambda: devices.told(2)[-1:] == [Receipt(3)])


def test_nothing_is_confirmed_while_nothing_can_be_stored(field: Field, devices: Devices) -> None:
    gateway = field.new_gateway(store_lock_seconds=0.1, batch_seconds=0.01, mqtt_receipt_seconds=0).start()
    with locked_store(gateway):
        field.publish(field.reports(5, devices=[3]))
        gateway.wait_for(lambda: "store failing" in gateway.log_tail())
        time.sleep(0.5)
        assert devices.told(3) == []
    gateway.wait_for(lambda: devices.told(3)[-1:] == [Receipt(5)])
