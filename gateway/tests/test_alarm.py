# SPDX-License-Identifier: MIT
"""The alarm over many exposed devices, as far as other workers tell of them."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Mapping

from peel_gateway.metrics import Metrics
from peel_gateway.outlets.alarm import MANY, Alarm


def test_others_exposures_count_and_its_own_do_not_twice() -> None:
    told: list[Mapping[str, object]] = []
    alarm = Alarm(Metrics(), lambda about, document: told.append(document), worker="here")
    for _ in range(MANY):
        alarm.overhear(json.dumps({"worker": "here"}).encode())
    assert told == []
    for _ in range(MANY):
        alarm.overhear(json.dumps({"worker": "there"}).encode())
    assert [document["exposed"] for document in told] == [MANY]


def test_whoever_tells_of_exposures_without_end_raises_one_alarm_and_fills_no_memory() -> None:
    told: list[Mapping[str, object]] = []
    alarm = Alarm(Metrics(), lambda about, document: told.append(document), worker="here")
    lie = json.dumps({"worker": "nobody"}).encode()
    for _ in range(20_000):
        alarm.overhear(lie)
    tracemalloc.start()
    for _ in range(100_000):
        alarm.overhear(lie)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(told) == 1
    assert grown < 1_000_000
