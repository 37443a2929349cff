# SPDX-License-Identifier: MIT
"""The alarm about many exposed devices, with exposures reported by other workers."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Mapping

import pytest

from peel_gateway.metrics import Metrics
from peel_gateway.notifiers.alarm import MANY, Alarm


def test_others_exposures_count_and_its_own_do_not_twice() -> None:
    told: list[Mapping[str, object]] = []
    alarm = Alarm(Metrics(), lambda about, document: told.append(document), worker="here")
    for _ in range(MANY):
        alarm.on_exposure_message(json.dumps({"worker": "here"}).encode())
    assert told == []
    for _ in range(MANY):
        alarm.on_exposure_message(json.dumps({"worker": "there"}).encode())
    assert [document["exposed"] for document in told] == [MANY]


def test_exposures_without_end_raise_one_alarm_and_fill_no_memory() -> None:
    told: list[Mapping[str, object]] = []
    alarm = Alarm(Metrics(), lambda about, document: told.append(document), worker="here")
    lie = json.dumps({"worker": "nobody"}).encode()
    for _ in range(5_000):
        alarm.on_exposure_message(lie)
    tracemalloc.start()
    for _ in range(25_000):
        alarm.on_exposure_message(lie)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(told) == 1
    assert grown < 250_000


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"5",
        b"[]",
        b'"worker"',
        b"{}",
        b"[" * 100_000,
        b'{"worker":' * 100_000,
        b'{"worker":' + b"9" * 5000,
    ],
    ids=lambda payload: repr(payload[:12]),
)
def test_whatever_is_published_in_a_gateways_name_ends_no_connection(payload: bytes) -> None:
    """It is heard on the network thread, and the broker may have been told to keep it: an error would come with every connection."""
    told: list[Mapping[str, object]] = []
    alarm = Alarm(Metrics(), lambda about, document: told.append(document), worker="here")
    for _ in range(MANY):
        alarm.on_exposure_message(payload)
    assert told == []
