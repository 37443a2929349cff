# SPDX-License-Identifier: MIT
"""Leases on partitions and their fencing: a worker that has lost a partition writes nothing more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from databases import PostgresSchema
from lab import Lab, harmony_profile

from peel_gateway.engine.recount import recount
from peel_gateway.model.verdict import Verdict
from peel_gateway.service.leasing import LeasingWorker
from peel_gateway.storage.postgres.leases import PostgresLeases
from peel_gateway.storage.store import Store, StoreAway, StoreError, StoreLocked, StoreLost

PARTITIONS = 4


@pytest.fixture
def schema(new_schema: Callable[[], PostgresSchema]) -> PostgresSchema:
    schema = new_schema()
    schema.archive(partitions=PARTITIONS).close()
    return schema


@pytest.fixture
def leases(schema: PostgresSchema) -> Iterator[PostgresLeases]:
    archive = schema.archive()
    found = PostgresLeases(archive.address, timeout=5)
    yield found
    found.close()
    archive.close()


class OwnedShare:
    """A lab's database: a partition under an epoch."""

    def __init__(self, schema: PostgresSchema, partition: int, epoch: int) -> None:
        self._schema = schema
        self._options = {"partition": partition, "partitions": PARTITIONS, "epoch": epoch}
        self.execute = schema.execute

    def open(self, **options: Any) -> Store:
        return self._schema.open(**self._options | options)


def owner(schema: PostgresSchema, epoch: int, rng: np.random.Generator) -> Lab:
    """A gateway that owns partition 1, under some epoch."""
    return Lab(OwnedShare(schema, 1, epoch), (harmony_profile(),), 4, rng)


def test_a_partition_has_one_owner_at_a_time(leases: PostgresLeases) -> None:
    assert [(lease.partition, lease.owner, lease.epoch) for lease in leases.all()] == [
        (n, "", 0) for n in range(PARTITIONS)
    ]
    first = leases.acquire(1, "a", 60)
    assert first is not None and first.epoch == 1
    assert leases.acquire(1, "b", 60) is None
    assert leases.renew(first, 30)
    assert [lease.owner for lease in leases.all()] == ["", "a", "", ""]
    assert 29 < leases.all()[1].seconds <= 30
    leases.release(first)
    second = leases.acquire(1, "b", 60)
    assert second is not None and second.epoch == 2
    assert not leases.renew(first, 60)
    leases.release(first)  # changes nothing
    assert leases.all()[1].owner == "b"


def test_of_many_who_want_a_partition_one_gets_it(schema: PostgresSchema, leases: PostgresLeases) -> None:
    got = []
    archive = schema.archive()

    def want(name: str) -> None:
        mine = PostgresLeases(archive.address)
        got.append(mine.acquire(2, name, 60))
        mine.close()

    threads = [threading.Thread(target=want, args=(f"w{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    archive.close()
    (lease,) = [each for each in got if each is not None]
    assert leases.all()[2].owner == lease.owner and lease.epoch == 1


def set_clock_back(schema: PostgresSchema, seconds: int) -> None:
    """Move all stored times ahead, as if the server's clock had been set back."""
    for table in ("lease", "worker"):
        schema.execute(f"UPDATE {table} SET until = until + make_interval(secs => {seconds})")


def test_a_server_whose_clock_is_set_back_does_not_keep_the_dead_alive(
    schema: PostgresSchema, leases: PostgresLeases
) -> None:
    lease = leases.acquire(1, "a", 10)
    assert lease is not None and leases.attend("a", 10) == 1
    set_clock_back(schema, 5)
    assert leases.acquire(1, "b", 10) is None, "so little nobody notices"
    assert leases.attend("b", 10) == 2
    set_clock_back(schema, 3600)
    assert leases.all()[1].seconds < 0 and leases.workers() == {}
    taken = leases.acquire(1, "b", 10)
    assert taken is not None and taken.epoch == lease.epoch + 1
    assert leases.attend("b", 10) == 1
    assert not leases.renew(lease, 10)
    set_clock_back(schema, 3600)
    assert leases.renew(taken, 10), "a living worker keeps its lease"
    assert 9 < leases.all()[1].seconds <= 10


def test_who_let_a_lease_run_out_writes_nothing_more(
    schema: PostgresSchema, leases: PostgresLeases, rng: np.random.Generator
) -> None:
    lease = leases.acquire(1, "a", 0.2)
    assert lease is not None
    former = owner(schema, lease.epoch, rng)
    assert former.send(former.frames(1, range(1, 11))) == {"accepted": 10}
    time.sleep(0.3)
    assert former.send(former.frames(1, range(11, 21))) == {"accepted": 10}, "nobody wanted it"
    taken = leases.acquire(1, "b", 60)
    assert taken is not None and taken.epoch == lease.epoch + 1
    unacknowledged = former.frames(1, range(21, 31))
    with pytest.raises(StoreLost, match="partition 1 belongs to b now"):
        former.send(unacknowledged)
    heir = owner(schema, taken.epoch, rng)
    assert heir.send(unacknowledged) == {"accepted": 10}
    assert heir.store.counts().verdicts[Verdict.ACCEPTED] == 30
    assert recount(heir.store, heir).agrees


def test_an_owner_that_was_stopped_in_the_middle_of_a_transaction_does_not_hold_up_its_heir(
    schema: PostgresSchema, leases: PostgresLeases, rng: np.random.Generator
) -> None:
    """As after SIGSTOP: the transaction is open and holds its locks, and the process continues when it wakes up."""
    lease = leases.acquire(1, "a", 0.1)
    assert lease is not None
    former = owner(schema, lease.epoch, rng)
    former.send(former.frames(1, range(1, 11)))
    with pytest.raises(StoreError, match="closed the connection"), former.store.begin() as transaction:
        time.sleep(0.2)
        started = time.monotonic()
        taken = leases.acquire(1, "b", 60)
        assert taken is not None and time.monotonic() - started < 3
        heir = owner(schema, taken.epoch, rng)
        assert heir.send(heir.frames(2, range(1, 11))) == {"accepted": 10}
        transaction.set_clock(transaction.clock())
    with pytest.raises(StoreLost):
        former.send(former.frames(1, range(11, 21)))
    assert heir.store.counts().verdicts[Verdict.ACCEPTED] == 20
    assert recount(heir.store, heir).agrees


def test_a_worker_that_was_stopped_while_it_renews_does_not_hold_up_the_others(
    schema: PostgresSchema, leases: PostgresLeases
) -> None:
    """A lease transaction locks the worker's row and its leases' rows, which every other worker updates or deletes."""
    stopped = PostgresLeases(leases._session._address, timeout=5)
    lease = stopped.acquire(1, "a", 0.1)
    assert lease is not None
    stopped.attend("a", 0.1)
    with pytest.raises(StoreAway, match="paused within a transaction"), stopped._transaction() as raw:
        raw.execute("DELETE FROM worker WHERE name = 'a'")
        raw.execute("UPDATE lease SET seconds = 0.1 WHERE partition = 1")
        time.sleep(0.2)
        assert leases.attend("b", 60) == 1
        assert leases.acquire(1, "b", 60) is not None
    stopped.close()


def test_who_writes_by_hand_takes_turns_with_the_owner(
    schema: PostgresSchema, leases: PostgresLeases, rng: np.random.Generator
) -> None:
    lease = leases.acquire(1, "a", 60)
    assert lease is not None
    lab = owner(schema, lease.epoch, rng)
    lab.send(lab.frames(1, range(1, 11)))
    by_hand = schema.open(partition=1, partitions=PARTITIONS, timeout=0.1)
    with lab.store.begin(), pytest.raises(StoreLocked, match="another process writes this partition"), by_hand.begin():
        raise AssertionError("two writers at once")
    with by_hand.begin() as transaction:
        transaction.take([])
    other = schema.open(partition=2, partitions=PARTITIONS, timeout=0.1)
    with lab.store.begin(), other.begin():
        pass  # partitions do not wait for each other
    by_hand.close()
    other.close()
    assert lab.send(lab.frames(1, range(11, 21))) == {"accepted": 10}


def test_many_may_open_a_new_database_at_once(new_schema: Callable[[], PostgresSchema]) -> None:
    """Workers that are started together: one makes the tables, the others wait and find them."""
    for _ in range(5):
        schema = new_schema()
        with ThreadPoolExecutor(8) as pool:
            opening = [pool.submit(schema.archive, partitions=PARTITIONS) for _ in range(8)]
        opened = [each.result() for each in opening]
        assert [archive.counts().exposed_devices for archive in opened] == [0] * 8
        for archive in opened:
            archive.close()


def test_fleets_in_one_database_do_not_touch_each_other(
    schema: PostgresSchema, leases: PostgresLeases, new_schema: Callable[[], PostgresSchema], rng: np.random.Generator
) -> None:
    """Taking a partition ends sessions of the same fleet only."""
    lease = leases.acquire(1, "a", 60)
    assert lease is not None
    lab = owner(schema, lease.epoch, rng)
    other = new_schema().archive(partitions=PARTITIONS)
    elsewhere = other.leases()
    with lab.store.begin() as transaction:
        for name in ("b", "c"):
            assert elsewhere.acquire(1, name, -1) is not None
        transaction.set_clock(transaction.clock())
    elsewhere.close()
    other.close()


def test_a_partition_that_is_given_back_while_the_others_are_looked_at() -> None:
    """Pipelines end on threads of their own: what is held may be less from one look to the next."""
    nobody: Any = None
    holder = LeasingWorker(
        nobody, nobody, nobody, name="a", partitions=PARTITIONS, seconds=60, on_failure=lambda: pytest.fail("it ended")
    )

    class Ending:
        """Another partition is left as soon as somebody looks at this one."""

        @property
        def leaving(self) -> bool:
            holder._held.pop(1, None)
            return True

    held: Any = {0: Ending(), 1: Ending(), 2: Ending()}
    holder._held = held
    holder._release_down_to(0)
    assert list(holder._held) == [0, 2]
