# SPDX-License-Identifier: MIT
"""From a file into partitions of a database, into other partitions, and back: everything that anybody can ask stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from databases import PostgresSchema, SqliteFile
from lab import Lab, MakeLab, harmony_profile, krr_profile

from peel_gateway.engine.engine import Engine
from peel_gateway.engine.pardon import pardon
from peel_gateway.engine.recount import recount
from peel_gateway.model.exposure import ExposureFilter
from peel_gateway.model.partition import Partition
from peel_gateway.service.pipeline import registry_of
from peel_gateway.storage.records import read_gaps, read_log
from peel_gateway.storage.store import Archive, StoreMismatch

DEVICES = 9
BUCKET = 300
ARRIVALS = {"arrival", "pardoned", "forfeited"}


@pytest.fixture
def lived(make_lab: MakeLab) -> Lab:
    """A gateway to which everything has happened: loss, faults, forgery, convictions, pardons of both kinds, retention."""
    lab = make_lab(harmony_profile(), krr_profile(), devices=DEVICES)
    for day in range(3):
        first = 1000 * day
        for device in range(1, DEVICES + 1):
            lab.send(lab.frames(device, [first + n for n in range(1, 101) if n % 7 or device % 2]))
            lab.now += 60
        lab.send(
            [b"junk %d" % day, *lab.frames(2, [first + 200], odds=(5, 1)), lab.frames(6, [first + 300])[0][:-1] + b"?"]
        )
        if day == 0:
            convict(lab, 3, first + 400)
            convict(lab, 4, first + 400)
            convict(lab, 7, first + 400)
            restored(lab, 3, restore=True)
            restored(lab, 4, restore=False)
        if day == 1:
            lab.prune(lab.now - 86_000)
            restored(lab, 7, restore=True)
            restored(lab, 2, restore=False)
        lab.now += 86_400
    assert recount(lab.store, lab).agrees
    assert len(read_log(lab.store)) and lab.store.counts().gaps and lab.store.counts().pardons == 4
    return lab


def convict(lab: Lab, device: int, first: int) -> None:
    """Plus on every attribute until it shows."""
    for start in range(first, first + 200, 10):
        lab.send([lab.sealed(device, n) for n in range(start, start + 10)])
    states = lab.store.devices()
    assert states.withdrawn[states.device == device].tolist() == [1]


def restored(lab: Lab, device: int, *, restore: bool) -> None:
    pardon(lab.store, [device], restore=restore, reason="a test", who="me", clock=lab.clock)


def table(found: Any, *without: str) -> dict[str, list[Any]]:
    return {each.name: getattr(found, each.name).tolist() for each in fields(found) if each.name not in without}


def answers(archive: Archive, lab: Lab) -> dict[str, Any]:
    """Return all query results, without arrivals, which differ between partitions."""
    profiles = [profile.id for profile in lab.profiles]
    return {
        "counts": archive.counts(),
        "devices": table(archive.devices(), *ARRIVALS),
        "log": table(read_log(archive), "arrival"),
        "gaps": table(read_gaps(archive), "arrival"),
        "device_reports": archive.device_reports(),
        "forfeited": archive.forfeited_reports(archive.devices().device),
        "first_received": archive.first_received(),
        "exposures": archive.exposures(limit=10_000),
        "blamed": archive.exposures(ExposureFilter(blamed=True), limit=3),
        "audit": [(each.id, each.device, each.reports, each.restored) for each in archive.audit()],
        "withdrawn": [archive.withdrawn_devices(profile) for profile in profiles],
        "tallies": [nonzero(archive.tallies(profile)) for profile in profiles],
        "by_bucket": [nonzero(archive.tallies(profile, bucket_seconds=BUCKET)) for profile in profiles],
        "device_tallies": [table(archive.device_tallies(profile)) for profile in profiles],
        "device_buckets": [table(archive.device_tallies(profile, bucket_seconds=BUCKET)) for profile in profiles],
    }


def nonzero(tallies: Any) -> dict[str, list[Any]]:
    some = np.any([tallies.plus, tallies.minus, tallies.withdrawn_plus, tallies.withdrawn_minus], axis=0)
    return {each.name: getattr(tallies, each.name)[some].tolist() for each in fields(tallies)}


@pytest.fixture
def new_archive(new_schema: Callable[[], PostgresSchema], tmp_path: Path) -> Iterator[Callable[[int], Archive]]:
    """Return a maker of empty archives: a file for one partition, a schema for several."""
    made: list[Archive] = []

    def make(partitions: int) -> Archive:
        if partitions == 1:
            made.append(SqliteFile(tmp_path / f"new{len(made)}.sqlite").open())
        else:
            made.append(new_schema().archive(partitions=partitions))
        return made[-1]

    yield make
    for archive in made:
        archive.close()


@pytest.mark.parametrize("ways", [(4, 1), (2, 8, 1), (1, 16)])
def test_everything_is_what_it_was(lived: Lab, new_archive: Callable[[int], Archive], ways: tuple[int, ...]) -> None:
    before = answers(lived.store, lived)
    source: Archive = lived.store
    for partitions in ways:
        target = new_archive(partitions)
        target.fill(source)
        assert recount(target, lived).differences == []
        assert answers(target, lived) == before
        source = target


def test_it_goes_on_where_it_was(lived: Lab, new_archive: Callable[[int], Archive]) -> None:
    """Redeliveries are known, flaws are found, buckets of tokens and of time go on; and back in the file, once more."""
    old = lived.frames(1, range(2101, 2111))
    assert lived.send(old) == {"accepted": 10}
    target = new_archive(4)
    target.fill(lived.store)
    lived.now += 60
    assert send(target, lived, 1, old) == {"redelivered": 10}
    assert send(target, lived, 5, lived.frames(5, range(2101, 2121))) == {"accepted": 20}
    assert send(target, lived, 6, lived.frames(6, [2200], odds=(5, 1))) == {"rule": 1}
    flood = send(target, lived, 5, lived.frames(5, [2**40]))
    assert flood == {"flood": 1}
    assert recount(target, lived).agrees
    back = new_archive(1)
    back.fill(target)
    assert answers(back, lived) == answers(target, lived)
    (lived.store,) = back.stores()
    lived.engine = lived.make_engine()
    assert lived.send([*old, *lived.frames(8, range(2101, 2111))]) == {"redelivered": 10, "accepted": 10}
    assert recount(lived.store, lived).agrees


def send(archive: Archive, lab: Lab, device: int, frames: list[bytes]) -> dict[str, int]:
    """Give frames to the partition that has the device."""
    partition = Partition(device % archive.partitions, archive.partitions)
    for store in archive.stores():
        if store.partition == partition.number:
            engine = Engine(store, clock=lab.clock)
            engine.load(registry_of(lab, partition))
            report = engine.process(lab.messages(frames))
            return {verdict.label: count for verdict, count in report.counts.items()}
    raise AssertionError("nobody has it")


def test_what_is_not_empty_is_left_alone(lived: Lab, lab: Lab) -> None:
    lab.send(lab.frames(1, [1, 2]))
    with pytest.raises(StoreMismatch, match="already has reports"):
        lab.store.fill(lived.store)
    assert len(read_log(lab.store)) == 2


def test_partitions_do_not_see_each_other(lived: Lab, new_archive: Callable[[int], Archive]) -> None:
    """A partition's store answers for its own devices, the archive for all."""
    target = new_archive(4)
    target.fill(lived.store)
    devices: list[int] = []
    for store in target.stores():
        with closing(store):
            mine = store.devices().device.tolist()
            assert all(device % 4 == store.partition for device in mine)
            assert set(read_log(store).device.tolist()) <= set(mine)
            assert {each.device % 4 for each in store.exposures(limit=1000)} <= {store.partition}
            devices += mine
    assert sorted(devices) == target.devices().device.tolist() == list(range(1, DEVICES + 1))


def test_devices_of_partitions_that_began_at_different_times_keep_their_age(
    lab: Lab, new_archive: Callable[[int], Archive]
) -> None:
    """The tick of a partition begins with its first batch; how long a device has been heard decides which numbers it may have used."""
    shared, whole = new_archive(2), new_archive(1)
    began = {}
    for device in (1, 2):
        began[device] = lab.now
        assert send(shared, lab, device, lab.frames(device, [1])) == {"accepted": 1}
        lab.now += 1000
    whole.fill(shared)
    (store,) = whole.stores()
    with store.begin() as transaction:
        clock, states = transaction.clock(), transaction.devices(np.array([1, 2]))
    assert (clock.wall - (clock.tick - states.first_tick)).tolist() == [began[1] * 1000, began[2] * 1000]
