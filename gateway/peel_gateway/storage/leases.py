# SPDX-License-Identifier: MIT
"""Leases on the partitions of a fleet: the interface for workers that share a PostgreSQL database."""

from __future__ import annotations

import abc
from dataclasses import dataclass

__all__ = ["Lease", "Leases"]


@dataclass(frozen=True)
class Lease:
    """A worker's ownership of a partition, as of when it was read."""

    partition: int
    owner: str
    """Empty if the partition is free. Every process has its own name, a new one after a restart."""
    epoch: int
    """Grows with every owner. A store that was opened with an older epoch cannot write."""
    seconds: float
    """Time left; negative if it has run out."""


class Leases(abc.ABC):
    """The leases of an archive. Methods raise `StoreError` on failure and then change nothing."""

    @abc.abstractmethod
    def all(self) -> list[Lease]:
        """Return the leases of all partitions, by number."""

    @abc.abstractmethod
    def acquire(self, partition: int, owner: str, seconds: float) -> Lease | None:
        """Take a partition whose lease is free or has run out; return None if another worker owns it."""

    @abc.abstractmethod
    def renew(self, lease: Lease, seconds: float) -> bool:
        """Extend a lease from now on; return False if the partition has another owner."""

    @abc.abstractmethod
    def release(self, lease: Lease) -> None:
        """Give a partition back. Do nothing if it has another owner."""

    @abc.abstractmethod
    def attend(self, owner: str, seconds: float) -> int:
        """Register a worker for some seconds, whether it owns partitions or not; return the number of workers."""

    @abc.abstractmethod
    def depart(self, owner: str) -> None:
        """Deregister a worker."""

    @abc.abstractmethod
    def workers(self) -> dict[str, float]:
        """Return the registered workers and the seconds until each registration runs out."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the connection. It is opened again when it is needed."""
