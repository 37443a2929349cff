# SPDX-License-Identifier: MIT
"""A worker among others: it holds leases on shares, no more than is fair, and runs a pipeline for each.

Whoever dies lets its leases run out, and others take its shares. A new owner ousts the former one twice: at the broker, which gives a
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
from peel_gateway.model.share import Share
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
        self._pool.open(Share(), self._store)

    def stop(self) -> None:
        self._pool.close(Share())

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
    share: Share
    lease: Lease
    store: Store
    until: float
    """When it runs out unless it is renewed: counted from before it was asked for, so never too late."""
    leaving: bool = False


def fair_number(name: str, leases: Sequence[Lease], shares: int, workers: int) -> int:
    """How many shares a worker may have: shares by workers, rounded down, and one of the remainder where that is not taken.

    Rounding up would not do: of four shares two workers could have two each, and a third none. Where more workers have one of the remainder
    than it has, their names decide.
    """
    least, remainder = divmod(shares, workers)
    held = Counter(lease.owner for lease in leases if lease.seconds > 0)
    richer = sorted(other for other, count in held.items() if count > least)
    more = name in richer[:remainder] if name in richer else len(richer) < remainder
    return least + more


class LeasingWorker:
    """A thread that renews its leases, gives shares back when others have too few, and takes what is free.

    Parameters
    ----------
    name : str
        This worker's name; nobody else may ever have it, not even the same process started again.
    shares : int
        How many there are.
    open_share : callable
        Opens the store of a share under a lease.
    seconds : float
        How long a lease lasts.
    """

    def __init__(
        self,
        pool: PipelinePool,
        leases: Leases,
        open_share: Callable[[Lease], Store],
        *,
        name: str,
        shares: int,
        seconds: float,
        on_failure: Callable[[], None],
    ) -> None:
        self._pool = pool
        self._leases = leases
        self._open_share = open_share
        self._name = name
        self._shares = shares
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
        """Store and acknowledge what has come, give all shares back."""
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
            self._share_out()
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
            _log.warning("share lost; what was not stored goes unacknowledged", share=held.share.number)
            self._leave(held, self._pool.abandon)

    def _share_out(self) -> None:
        leases = self._leases.all()
        fair = 0 if self._stopping else fair_number(self._name, leases, self._shares, self.workers)
        self._give_back(fair)
        wanted = fair - len(self._held)
        for lease in leases if wanted > 0 else ():
            if wanted > 0 and lease.seconds < 0 and self._take(lease.share):
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
            store = self._open_share(lease)
            held = _Held(Share(number, self._shares), lease, store, asked + self._seconds)
            self._pool.open(held.share, store, may_connect=lambda: _now() < held.until)
        except BaseException:
            self._leases.release(lease)
            raise
        self._held[number] = held
        _log.info("share taken", share=number, epoch=lease.epoch)
        return True

    def _leave(self, held: _Held, end: Callable[[Share], bool]) -> None:
        """End a pipeline on a thread of its own, which may take a while: the other leases are renewed meanwhile, and so is this one."""
        held.leaving = True
        threading.Thread(target=self._end, args=(held, end), name=f"leaving {held.share.number}", daemon=True).start()

    def _end(self, held: _Held, end: Callable[[Share], bool]) -> None:
        try:
            if end(held.share):
                held.store.close()
            self._leases.release(held.lease)
            _log.info("share left", share=held.share.number)
        except StoreError as error:
            _log.warning("a share is not given back; it will run out", share=held.share.number, cause=error)
        finally:
            del self._held[held.share.number]
            self._news.set()

    def _note_failure(self, error: StoreError) -> None:
        self._cause = f"{type(error).__name__}: {error}"
        if self._failing_since is None:
            self._failing_since = time.monotonic()
            _log.error("leases cannot be renewed; others may take the shares", cause=error)
