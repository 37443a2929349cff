# SPDX-License-Identifier: MIT
"""Recount: whatever is changed in a database, in the log or beside it, is noticed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from databases import change_log
from lab import Lab, MakeLab, harmony_profile

from peel_gateway.engine.recount import recount
from peel_gateway.storage.records import GAP
from peel_gateway.storage.store import StoreCorrupt


def put(device: int, number: int, name: str, value: Any) -> Callable[[Any], Any]:
    """Change one field of a report."""

    def change(events: Any) -> Any:
        (row,) = np.flatnonzero(
            (events["device"] == device) & (events["number"] == number) & (events["verdict"] != GAP)
        )
        events[name][row] = value(events[name][row])
        return events

    return change


def put_gap(number: int, name: str, value: Any) -> Callable[[Any], Any]:
    """Change one field of a gap."""

    def change(events: Any) -> Any:
        (row,) = np.flatnonzero((events["number"] == number) & (events["verdict"] == GAP))
        events[name][row] = value(events[name][row])
        return events

    return change


def swapped(events: Any) -> Any:
    """Two reports of device 2 with different answers in the opposite order."""
    first, *later = np.flatnonzero((events["device"] == 2) & (events["number"] >= 30))
    second = next(row for row in later[39:] if events["index"][row] != events["index"][first])
    events[[first, second]] = events[[second, first]]
    return events


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("tally", "UPDATE tally SET plus = plus + 1 WHERE idx = 0"),
        ("tally", "UPDATE tally SET withdrawn_minus = withdrawn_minus + 1 WHERE idx = 0"),
        ("test_state", put(1, 30, "marks", lambda marks: marks ^ 2)),
        ("test_state", swapped),
        (
            "test_state",
            "UPDATE test_state SET state = (SELECT state FROM test_state WHERE device = 1) WHERE device = 2",
        ),
        ("bucket_span", "UPDATE bucket_span SET highest = highest + 1 WHERE device = 1"),
        ("bucket_span", "DELETE FROM bucket_span WHERE device = 1"),
        ("bucket_span", "UPDATE progress SET bucket_lowest = bucket_lowest - 1 WHERE device = 2"),
        ("tally", put(1, 5, "bucket", lambda bucket: bucket - 300)),
        ("gap", "UPDATE counter SET value = value + 1 WHERE kind = 'gap'"),
        ("device_report", "UPDATE progress SET accepted = accepted - 1 WHERE device = 2"),
        ("device_report", "UPDATE refused SET reports = reports + 1"),
        ("device_report", put(2, 7, "verdict", lambda _: 15)),
        ("counter", "UPDATE counter SET value = value + 1 WHERE kind = 'verdict' AND key = 0"),
        ("seen", "UPDATE progress SET last_number = 7 WHERE device = 1"),
        ("seen", "UPDATE device SET holes = (SELECT holes FROM device WHERE device = 2) WHERE device = 1"),
        ("seen", "UPDATE device SET low_water = 12, forgone = 3 WHERE device = 1"),
        ("seen", put(2, 7, "number", lambda _: 8)),
        ("seen", put(2, 7, "number", lambda _: 107)),
        ("device_report", put(2, 7, "device", lambda _: 1)),
        ("tally", "UPDATE device SET withdrawn = 1 WHERE device = 2"),
        ("held", "DELETE FROM exposure"),
        ("gap", put_gap(12, "index", lambda index: (index + 1) % 4)),
        ("gap", put_gap(12, "number", lambda _: 20)),
        ("gap", put(1, 14, "marks", lambda marks: marks & 7)),
        ("gap", put_gap(12, "device", lambda _: 2)),
        ("gap", "UPDATE progress SET settled = settled + 18 WHERE device = 1"),
    ],
)
def test_recount_notices_any_change(lab: Lab, table: str, change: str | Callable[[Any], Any]) -> None:
    lab.send(lab.frames(1, [*range(1, 10), *range(15, 60)]) + lab.frames(2, range(1, 101)) + [b"junk"])
    lab.send(lab.frames(3, [1], odds=(5, 1)))
    lab.now += 300
    lab.send(lab.frames(1, [14, 60]))
    assert recount(lab.store, lab).agrees
    if isinstance(change, str):
        lab.database.execute(change)
    else:
        change_log(lab.database, change)
    assert table in {difference.table for difference in recount(lab.store, lab).differences}


def test_events_that_are_missing_are_noticed(lab: Lab) -> None:
    for start in range(1, 61, 20):
        lab.send(lab.frames(1, range(start, start + 20)))
    lab.database.execute("DELETE FROM log WHERE last = 40")
    with pytest.raises(StoreCorrupt, match="events 21 to 40 are missing"):
        recount(lab.store, lab)


def test_recount_of_a_long_jump_with_losses(lab: Lab) -> None:
    """Of a long jump only the last numbers are settled one by one: no difference, and still none after more loss and retention."""
    lab.send(lab.frames(1, range(1, 40)))
    lab.send(lab.frames(1, [n for n in range(60, 4000) if n % 7]))
    assert recount(lab.store, lab).agrees
    lab.now += 86400
    lab.send(lab.frames(1, [n for n in range(4000, 4500) if n % 5]))
    lab.prune(lab.now)
    lab.send(lab.frames(1, [n for n in range(4500, 4600) if n % 5]) + lab.frames(1, [4495, 4505]))
    assert lab.store.counts().gaps > 200
    assert recount(lab.store, lab).agrees


def test_recount_notices_a_conviction_that_the_log_does_not_support(lab: Lab) -> None:
    for number in range(1, 81, 10):
        lab.send([lab.sealed(1, n) for n in range(number, number + 10)])
    assert recount(lab.store, lab).agrees
    lab.database.execute("UPDATE device SET withdrawn = 0, cause = 0")
    assert any(difference.table == "device" for difference in recount(lab.store, lab).differences)


@pytest.mark.slow
def test_states_of_many_devices_are_not_in_memory_together(make_lab: MakeLab) -> None:
    """A recount with little room judges all the same, some devices at a time."""
    lab = make_lab(harmony_profile(k=48), devices=800)
    lab.send([frame for device in lab.ids.tolist() for frame in lab.frames(device, [1, 2])])
    whole = lab.cache.device_tests[0].e_process.state_bytes * 800
    peaks = {}
    for room in (2**28, whole // 10):
        tracemalloc.start()
        report = recount(lab.store, lab, cache_bytes=room)
        peaks[room] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert report.agrees and report.devices == 800
    assert peaks[whole // 10] < peaks[2**28] - whole, "as played and as stored, they would be twice that"
    lab.database.execute(
        "UPDATE test_state SET state = (SELECT state FROM test_state WHERE device = 1) WHERE device = 700"
    )
    assert [each.key for each in recount(lab.store, lab, cache_bytes=whole // 10).differences] == [f"{700:08x}"]
