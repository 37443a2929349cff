# SPDX-License-Identifier: MIT
"""A worker among others: it holds leases on partitions, no more than is fair, and runs a pipeline for each.

Whoever dies lets its leases run out, and others take its partitions. A new owner ousts the former one twice: at the broker, which gives a
session's name to one connection at a time, and at the store, which refuses what is written under an older epoch. So a worker that was
stopped and goes on later can neither store nor acknowledge anything; it finds that its leases are gone and takes part again.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from peel_gateway.logs import Log
from peel_gateway.model.partition import Partition
from peel_gateway.storage.store import Lease, Leases, Store, StoreError
from peel_gateway.workers.pool import PipelinePool

__all__ = ["LeasingWorker", "SingleWorker", "Worker", "fair_number"]


class Worker(Protocol):
    """Opens the pipelines of a pool and closes them."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    @property
    def workers(self) -> int:
        """How many processes serve the fleet, this one among them."""

    def trouble(self) -> tuple[float, str] | None:
        """How long it has been unable to tell what it owns, and why; None while it can."""


class SingleWorker:
    """Has all lanes for as long as it runs: the one process that writes to a SQLite file."""

    workers = 1

    def __init__(self, pool: PipelinePool, store: Store) -> None:
        self._pool = pool
        self._store = store

    def start(self) -> None:
        self._pool.open(Partition(), self._store)

    def stop(self) -> None:
        self._pool.close(Partition())

    def trouble(self) -> tuple[float, str] | None:
        return None


_TURNS_PER_LEASE = 4
"""So often a lease is renewed before it would run out."""

_STOP_SECONDS = 60.0

_log = Log("worker")


def _now() -> float:
    """Seconds that go on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass
class _Held:
    partition: Partition
    lease: Lease
    store: Store
    until: float
    """When it runs out unless it is renewed: counted from before it was asked for, so never too late."""
    leaving: bool = False


def fair_number(name: str, leases: Sequence[Lease], partitions: int, workers: int) -> int:
    """How many partitions a worker may have: partitions by workers, rounded down, and one of the remainder where that is not taken.

    Rounding up would leave a worker idle: of four partitions two workers could have two each, and a third none. If more workers hold
    one of the remainder than there are, their names decide.
    """
    least, remainder = divmod(partitions, workers)
    held = Counter(lease.owner for lease in leases if lease.seconds > 0)
    richer = sorted(other for other, count in held.items() if count > least)
    more = name in richer[:remainder] if name in richer else len(richer) < remainder
    return least + more


class LeasingWorker:
    """A thread that renews its leases, gives partitions back when others have too few, and takes what is free.

    Parameters
    ----------
    name : str
        This worker's name; nobody else may ever have it, not even the same process started again.
    partitions : int
        How many there are.
    open_partition : callable
        Opens the store of a partition under a lease.
    seconds : float
        How long a lease lasts.
    """

    def __init__(
        self,
        pool: PipelinePool,
        leases: Leases,
        open_partition: Callable[[Lease], Store],
        *,
        name: str,
        partitions: int,
        seconds: float,
        on_failure: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._leases = leases
        self._open_partition = open_partition
        self._name = name
        self._partitions = partitions
        self._seconds = seconds
        self._on_failure = on_failure
        self._held: dict[int, _Held] = {}
        self._news = threading.Event()
        self._stopping = False
        self._failing_since: float | None = None
        self._cause = ""
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
        self.workers = 1
        """How many there are, this one among them."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Store and acknowledge what has come, give all partitions back."""
        self._stopping = True
        self._news.set()
        self._thread.join(_STOP_SECONDS)

    def trouble(self) -> tuple[float, str] | None:
        """How long the leases could not be renewed, and why; None while they can."""
        since, cause = self._failing_since, self._cause
        return None if since is None else (time.monotonic() - since, cause)

    def _run(self) -> None:
        try:
            while not self._stopping or self._held:
                self._turn()
                self._news.wait(self._seconds / _TURNS_PER_LEASE)
                self._news.clear()
            self._leases.depart(self._name)
        except StoreError as error:
            _log.warning("left without a word", cause=error)
        except BaseException as error:
            _log.exception("leases are no longer looked after")
            self._pool.failure = error
            self._on_failure()
        finally:
            self._leases.close()

    def _turn(self) -> None:
        if self._stopping:
            self._give_back(0)  # whether the database is there or not
        try:
            self.workers = self._leases.attend(self._name, self._seconds)
            for held in list(self._held.values()):
                self._renew(held)
            self._partition_out()
        except StoreError as error:
            self._note_failure(error)
            return
        if self._failing_since is not None:
            _log.info("leases can be renewed again", seconds=time.monotonic() - self._failing_since)
            self._failing_since = None

    def _renew(self, held: _Held) -> None:
        asked = _now()
        if self._leases.renew(held.lease, self._seconds):
            held.until = asked + self._seconds
        elif not held.leaving:
            _log.warning("partition lost; what was not stored goes unacknowledged", partition=held.partition.number)
            self._leave(held, self._pool.abandon)

    def _partition_out(self) -> None:
        leases = self._leases.all()
        fair = 0 if self._stopping else fair_number(self._name, leases, self._partitions, self.workers)
        self._give_back(fair)
        wanted = fair - len(self._held)
        for lease in leases if wanted > 0 else ():
            if wanted > 0 and lease.seconds < 0 and self._take(lease.partition):
                wanted -= 1

    def _give_back(self, keeping: int) -> None:
        """Leave what was taken last, but for so many."""
        staying = [held for held in list(self._held.values()) if not held.leaving]  # some may end meanwhile
        for held in staying[keeping:]:
            self._leave(held, self._pool.close)

    def _take(self, number: int) -> bool:
        asked = _now()
        lease = self._leases.acquire(number, self._name, self._seconds)
        if lease is None:
            return False
        try:
            store = self._open_partition(lease)
            held = _Held(Partition(number, self._partitions), lease, store, asked + self._seconds)
            self._pool.open(held.partition, store, may_connect=lambda: _now() < held.until)
        except BaseException:
            self._leases.release(lease)
            raise
        self._held[number] = held
        _log.info("partition taken", partition=number, epoch=lease.epoch)
        return True

    def _leave(self, held: _Held, end: Callable[[Partition], bool]) -> None:
        """End a pipeline on a thread of its own, which may take a while: the other leases are renewed meanwhile, and so is this one."""
        held.leaving = True
        threading.Thread(
            target=self._end, args=(held, end), name=f"leaving {held.partition.number}", daemon=True
        ).start()

    def _end(self, held: _Held, end: Callable[[Partition], bool]) -> None:
        try:
            if end(held.partition):
                held.store.close()
            self._leases.release(held.lease)
            _log.info("partition left", partition=held.partition.number)
        except StoreError as error:
            _log.warning("a partition is not given back; it will run out", partition=held.partition.number, cause=error)
        finally:
            del self._held[held.partition.number]
            self._news.set()

    def _note_failure(self, error: StoreError) -> None:
        self._cause = f"{type(error).__name__}: {error}"
        if self._failing_since is None:
            self._failing_since = time.monotonic()
            _log.error("leases cannot be renewed; others may take the partitions", cause=error)
