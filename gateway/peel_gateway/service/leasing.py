# SPDX-License-Identifier: MIT
"""A worker of several on one PostgreSQL database: it serves the partitions that it holds leases on.

A worker that dies stops renewing its leases, and other workers take its partitions. Two things keep the former worker from interfering:
the broker allows one connection per client id, and the store rejects writes under an older epoch. So a worker that was suspended can
neither store nor acknowledge reports of a lost partition. It finds that its leases are gone and acquires new ones.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from peel_gateway.logs import Log, Outage
from peel_gateway.model.partition import Partition
from peel_gateway.service.pool import PipelinePool
from peel_gateway.storage.leases import Lease, Leases
from peel_gateway.storage.store import Store, StoreError

__all__ = ["LeasingWorker", "fair_number"]


_TURNS_PER_LEASE = 4
"""A lease is renewed this many times before it would expire."""
_STOP_SECONDS = 60.0

_log = Log("worker")


def _now() -> float:
    """Return a monotonic clock that includes the time in which the machine was suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass
class _Held:
    partition: Partition
    lease: Lease
    store: Store
    until: float
    """Earliest time at which the lease may expire: counted from before the request was sent."""
    leaving: bool = False


def fair_number(name: str, leases: Sequence[Lease], partitions: int, workers: int) -> int:
    """Return how many partitions a worker may hold: partitions / workers rounded down, plus one if part of the remainder is free.

    With rounding up, two of three workers could hold all four partitions. If too many workers hold an extra partition, the first
    names in alphabetical order keep theirs.
    """
    least, remainder = divmod(partitions, workers)
    held = Counter(lease.owner for lease in leases if lease.seconds > 0)
    richer = sorted(other for other, count in held.items() if count > least)
    more = name in richer[:remainder] if name in richer else len(richer) < remainder
    return least + more


class LeasingWorker:
    """A thread that renews leases, releases partitions that other workers should have, and acquires free ones.

    Parameters
    ----------
    name : str
        This worker's name. It must be unique, also across restarts of the same process.
    partitions : int
        Number of partitions of the fleet.
    open_partition : callable
        Opens the store of a leased partition.
    seconds : float
        Duration of a lease.
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
        self._outage = Outage(
            _log, "leases cannot be renewed; other workers may take the partitions", "leases are renewed again"
        )
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
        self.workers = 1
        """Number of workers, including this one."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Store and acknowledge received messages, then release all partitions."""
        self._stopping = True
        self._news.set()
        self._thread.join(_STOP_SECONDS)

    def problem(self) -> tuple[float, str] | None:
        """Return the seconds for which leases could not be renewed and the cause; None while they can."""
        return self._outage.current()

    def _run(self) -> None:
        try:
            while not self._stopping or self._held:
                self._turn()
                self._news.wait(self._seconds / _TURNS_PER_LEASE)
                self._news.clear()
            self._leases.depart(self._name)
        except StoreError as error:
            _log.warning("could not deregister this worker on shutdown", cause=error)
        except BaseException as error:
            _log.exception("the lease thread failed; leases will expire")
            self._pool.failure = error
            self._on_failure()
        finally:
            self._leases.close()

    def _turn(self) -> None:
        if self._stopping:
            self._release_down_to(0)  # even if the database cannot be reached
        try:
            self.workers = self._leases.attend(self._name, self._seconds)
            for held in list(self._held.values()):
                self._renew(held)
            self._rebalance()
        except StoreError as error:
            self._outage.note(error)
        else:
            self._outage.end()

    def _renew(self, held: _Held) -> None:
        asked = _now()
        if self._leases.renew(held.lease, self._seconds):
            held.until = asked + self._seconds
        elif not held.leaving:
            _log.warning("partition lost; its unstored messages stay unacknowledged", partition=held.partition.number)
            self._leave(held, self._pool.abandon)

    def _rebalance(self) -> None:
        leases = self._leases.all()
        fair = 0 if self._stopping else fair_number(self._name, leases, self._partitions, self.workers)
        self._release_down_to(fair)
        wanted = fair - len(self._held)
        for lease in leases if wanted > 0 else ():
            if wanted > 0 and lease.seconds < 0 and self._take(lease.partition):
                wanted -= 1

    def _release_down_to(self, keeping: int) -> None:
        """Release the partitions acquired last, down to `keeping` partitions."""
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
        _log.info("partition acquired", partition=number, epoch=lease.epoch)
        return True

    def _leave(self, held: _Held, end: Callable[[Partition], bool]) -> None:
        """End a pipeline on a separate thread. It may take a while, and all leases, this one too, are renewed meanwhile."""
        held.leaving = True
        threading.Thread(
            target=self._end, args=(held, end), name=f"leaving {held.partition.number}", daemon=True
        ).start()

    def _end(self, held: _Held, end: Callable[[Partition], bool]) -> None:
        try:
            if end(held.partition):
                held.store.close()
            self._leases.release(held.lease)
            _log.info("partition released", partition=held.partition.number)
        except StoreError as error:
            _log.warning(
                "could not release a partition; its lease will expire", partition=held.partition.number, cause=error
            )
        finally:
            del self._held[held.partition.number]
            self._news.set()
