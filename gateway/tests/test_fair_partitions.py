# SPDX-License-Identifier: MIT
"""Partitions are dealt evenly: workers have the same number or one more, in whatever order they came, and none is idle."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from peel_gateway.service.leasing import fair_number
from peel_gateway.storage.leases import Lease

FREE = ""


def turn(worker: str, owners: list[str], workers: int) -> None:
    """Take a worker's turn: give back what is too much, take what is free."""
    leases = [Lease(partition, owner, 1, 1.0 if owner else -1.0) for partition, owner in enumerate(owners)]
    fair = fair_number(worker, leases, len(owners), workers)
    for partition in [partition for partition, owner in enumerate(owners) if owner == worker][fair:]:
        owners[partition] = FREE
    wanted = fair - owners.count(worker)
    for partition in [partition for partition, owner in enumerate(owners) if owner == FREE][: max(0, wanted)]:
        owners[partition] = worker


@pytest.mark.parametrize("partitions", [1, 4, 8])
@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8, 11])
def test_all_come_to_have_the_same_number_or_one_more(partitions: int, workers: int, rng: np.random.Generator) -> None:
    """For all former owners and orders of turns; afterwards no partition moves."""
    names = [f"worker{place}" for place in range(workers)]
    for _ in range(30):
        owners = [str(rng.choice([*names, FREE])) for _ in range(partitions)]
        for _ in range(6):
            for name in rng.permutation(names).tolist():
                turn(name, owners, workers)
        held = Counter(owners)
        assert FREE not in held
        assert {held[name] for name in names} <= {partitions // workers, -(-partitions // workers)}
        settled = list(owners)
        for name in names:
            turn(name, owners, workers)
        assert owners == settled


def test_four_partitions_leave_none_of_three_workers_idle() -> None:
    owners = ["a", "a", "b", "b"]
    for _ in range(3):
        for worker in "cba":
            turn(worker, owners, 3)
    assert sorted(Counter(owners).values()) == [1, 1, 2]


def test_what_has_run_out_is_nobodys() -> None:
    leases = [Lease(0, "gone", 1, -5.0), Lease(1, "gone", 1, -5.0), Lease(2, "a", 1, 1.0)]
    assert fair_number("a", leases, 3, 2) == 2
