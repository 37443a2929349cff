# SPDX-License-Identifier: MIT
"""Leases: which process owns which share of an archive, for a while, on the archive's own clock."""

from __future__ import annotations

import abc
from dataclasses import dataclass

__all__ = ["Lease", "Leases"]


@dataclass(frozen=True)
class Lease:
    """A share's owner, as of the moment when it was asked for."""

    share: int
    owner: str
    """Empty where there is none. No two processes may have the same name, nor one process after its restart."""
    epoch: int
    """Grows with every owner: a store opened with an older one writes nothing any more."""
    seconds: float
    """How long it lasts; negative where it has run out."""


class Leases(abc.ABC):
    """The leases of an archive. StoreError where something failed, and then nothing has changed."""

    @abc.abstractmethod
    def all(self) -> list[Lease]:
        """All shares, by number."""

    @abc.abstractmethod
    def acquire(self, share: int, owner: str, seconds: float) -> Lease | None:
        """Become a share's owner where nobody is, or whoever was has let it run out; None where somebody is."""

    @abc.abstractmethod
    def renew(self, lease: Lease, seconds: float) -> bool:
        """Let a lease last from now on; False where the share has another owner."""

    @abc.abstractmethod
    def release(self, lease: Lease) -> None:
        """Give a share back; nothing where it has another owner."""

    @abc.abstractmethod
    def attend(self, owner: str, seconds: float) -> int:
        """Say that a worker is there, for a while, whether it owns shares or not; return how many are."""

    @abc.abstractmethod
    def depart(self, owner: str) -> None:
        """Say that a worker is no longer there."""

    @abc.abstractmethod
    def workers(self) -> dict[str, float]:
        """Workers that are there, and the seconds for which that is known."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release the connection; it is made again when it is needed."""
