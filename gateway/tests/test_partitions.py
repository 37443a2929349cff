# SPDX-License-Identifier: MIT
"""Partitions: every device in exactly one, and each engine with its own devices alone."""

from __future__ import annotations

import numpy as np
import pytest
from lab import Lab

from peel_core.topics import LANES, device_topic
from peel_gateway.engine.engine import Engine
from peel_gateway.model.partition import Partition
from peel_gateway.model.verdict import Verdict
from peel_gateway.service.pipeline import registry_of

COUNTS = [1, 2, 4, 8, 16, 32, 64]


def matches(topic: str, topic_filter: str) -> bool:
    """MQTT's rule for filters without #."""
    pairs = zip(topic.split("/"), topic_filter.split("/"), strict=True)
    return all(wanted in ("+", level) for level, wanted in pairs)


@pytest.mark.parametrize("of", COUNTS)
def test_every_device_is_in_one_partition_by_its_id_and_by_its_topic(of: int) -> None:
    partitions = [Partition(number, of) for number in range(of)]
    assert sorted(lane for partition in partitions for lane in partition.lanes) == list(range(LANES))
    devices = np.array([1, 42, 63, 64, 0xFFFFFFFF, *range(1000, 1064)], np.uint32)
    owners = np.array([partition.has(devices) for partition in partitions])
    assert (owners.sum(axis=0) == 1).all()
    for place, device in enumerate(devices.tolist()):
        topic = device_topic("plant-7", device, "report")
        found = [
            partition
            for partition in partitions
            if any(matches(topic, each) for each in partition.filters("plant-7", "report"))
        ]
        assert found == [partitions[int(owners[:, place].argmax())]]


def test_a_partition_has_a_session_of_its_own_and_the_whole_fleet_its_former_name() -> None:
    assert Partition().session("peel-gateway-home") == "peel-gateway-home"
    names = {Partition(number, of).session("peel-gateway-home") for of in COUNTS for number in range(of)}
    assert len(names) == sum(COUNTS), "another number of partitions has other subscriptions, so it must not resume them"


@pytest.mark.parametrize(("number", "of"), [(0, 3), (0, 128), (0, 0), (8, 8), (-1, 8)])
def test_lanes_cannot_be_dealt_otherwise(number: int, of: int) -> None:
    with pytest.raises(ValueError, match="partition"):
        Partition(number, of)


def test_the_engine_of_a_partition_knows_its_devices_alone(lab: Lab) -> None:
    """A report that somebody publishes again on another lane is of nobody there: it cannot count twice."""
    partition = Partition(1, 2)
    registry = registry_of(lab, partition)
    assert registry.keyring.device_ids.tolist() == [device for device in lab.ids.tolist() if device % 2]
    engine = Engine(lab.store)
    engine.load(registry)
    mine, others = lab.frames(1, range(1, 4)), lab.frames(2, range(1, 6))
    assert engine.process(lab.messages(mine + others)).counts == {Verdict.ACCEPTED: 3, Verdict.DEVICE: 5}
