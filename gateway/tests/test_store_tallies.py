# SPDX-License-Identifier: MIT
"""Tallies of a store: by time, by device, and while others read and write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lab import Lab, MakeLab, Makers

from peel_gateway.engine.recount import recount
from peel_gateway.model.messages import Message
from peel_gateway.storage.records import read_log


def test_tallies_by_time(lab: Lab) -> None:
    for minute in range(0, 60, 5):
        lab.now = 1_700_000_400.0 + 60 * minute
        lab.send(lab.frames(1, range(minute * 10 + 1, minute * 10 + 11)))
    profile = lab.profiles[0].id
    assert len(np.unique(lab.store.tallies(profile, bucket_seconds=300).bucket)) == 12
    assert len(np.unique(lab.store.tallies(profile, bucket_seconds=1800).bucket)) == 3  # it begins in the middle of one
    half = lab.store.tallies(profile, since=1_700_000_400 + 1800)
    assert int((half.plus + half.minus).sum()) == 60
    with pytest.raises(ValueError, match="multiple of 300"):
        lab.store.tallies(profile, bucket_seconds=7)


def test_messages_from_before_1970_do_not_break_the_buckets(lab: Lab) -> None:
    lab.engine.process([Message("t", frame, -5.0) for frame in lab.frames(1, [1])])
    assert recount(lab.store, lab).agrees


def test_device_tallies_are_the_tallies_of_each_device(make_lab: MakeLab, profiles: Makers) -> None:
    """Over buckets, spans, two profiles, a withdrawn device and pruned rows: summed over devices they are the tallies."""
    lab = make_lab(profiles[0](4), profiles[1](4), devices=6)
    for hour in range(4):
        lab.now = 1_700_000_400.0 + 3600 * hour
        for device in range(1, 7):
            lab.send(lab.frames(device, range(100 * hour + 1, 100 * hour + 2 + 7 * device)))
        if hour == 1:
            assert lab.prune(lab.now - 1800) > 0
    lab.send(lab.frames(3, [900], odds=(5, 1)))
    for profile in lab.profiles:
        spans: tuple[dict[str, Any], ...] = (
            {},
            {"bucket_seconds": 300},
            {"bucket_seconds": 7200, "since": 1_700_003_000},
            {"until": 1_700_009_000},
        )
        for span in spans:
            devices = lab.store.device_tallies(profile.id, **span)
            tallies = lab.store.tallies(profile.id, **span)
            assert len(devices) > len(tallies) > 0
            assert (np.lexsort((devices.index, devices.device, devices.bucket)) == np.arange(len(devices))).all()
            cells = {cell: i for i, cell in enumerate(zip(tallies.bucket, tallies.index, strict=True))}
            place = [cells[cell] for cell in zip(devices.bucket, devices.index, strict=True)]
            for column, counted in (
                ("plus", 1),
                ("minus", 1),
                ("withdrawn_plus", devices.withdrawn),
                ("withdrawn_minus", devices.withdrawn),
            ):
                counts = getattr(devices, column.removeprefix("withdrawn_")) * counted
                assert (np.bincount(place, counts, len(tallies)) == getattr(tallies, column)).all()
    harmony = lab.store.device_tallies(lab.profiles[0].id)
    assert np.unique(harmony.device).tolist() == [1, 3, 5]
    assert np.unique(harmony.device[harmony.withdrawn > 0]).tolist() == [3]
    assert len(lab.store.device_tallies(1)) == 0
    with pytest.raises(ValueError, match="multiple of 300"):
        lab.store.device_tallies(lab.profiles[0].id, bucket_seconds=7)


def test_a_long_question_keeps_no_short_one_waiting(lab: Lab) -> None:
    """While somebody reads the log, others read and write, and he sees one moment."""
    lab.send(lab.frames(1, range(1, 101)))
    with lab.store.inspect() as shown:
        lab.send(lab.frames(2, range(1, 51)))
        assert int(lab.store.tallies(lab.profiles[0].id).plus.sum()) > 0
        for _ in range(2):
            assert shown.kept.arrival == sum(len(log) + len(gaps) for log, gaps in shown.events()) == 100
        assert shown.device_tests(np.array([1, 2])).device.tolist() == [1]
    assert lab.store.device_tallies(lab.profiles[0].id).device.max() == 2


def test_before_the_first_report_there_is_nothing(lab: Lab) -> None:
    profile = lab.profiles[0].id
    assert len(lab.store.device_tallies(profile)) == len(lab.store.device_tallies(profile, bucket_seconds=300)) == 0
    assert len(lab.store.tallies(profile)) == len(read_log(lab.store)) == len(lab.store.devices()) == 0
    assert lab.store.first_received() is None
    first = lab.now
    for number in (1, 2):
        lab.send(lab.frames(number, [number]))
        lab.now += 60
    assert lab.store.first_received() == first
