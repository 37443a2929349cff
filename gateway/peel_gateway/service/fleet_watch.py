# SPDX-License-Identifier: MIT
"""Reload the fleet folder when it changes. A folder that cannot be used changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from peel_gateway.fleet.directory_file import RestoredFolder
from peel_gateway.fleet.folder import Fleet, FleetError
from peel_gateway.fleet.profiles import refuse_uneven
from peel_gateway.fleet.snapshot import FleetSnapshot, take_snapshot
from peel_gateway.logs import Log
from peel_gateway.metrics import Metrics
from peel_gateway.storage.store import Archive, StoreError

__all__ = ["FleetWatch"]

_log = Log("fleet")


class FleetWatch:
    """A fleet folder and its last usable snapshot.

    Parameters
    ----------
    folder : Path
        Read at once; FleetError if it cannot be used.
    """

    def __init__(self, folder: Path, metrics: Metrics) -> None:
        self._folder = folder
        self._metrics = metrics
        fleet = Fleet(folder)
        self.name = fleet.name
        self._mark: object = fleet.fingerprint()
        self.snapshot = take_snapshot(fleet)
        self.problem: str | None = None
        """The reason why the current folder is not used; None if it is."""
        self.restored = False
        """Whether the reason is that the folder was restored from an old copy."""
        self._store: Archive | None = None

    def join(self, store: Archive) -> None:
        """Check that folder and database fit: FleetError if a profile does not, RestoredFolder if the folder is an older copy."""
        refuse_uneven(self.snapshot.profiles, store.bucket_seconds)
        store.follow_registry(self.snapshot.history.follow)
        self._store = store

    def look(self, *, force: bool, load: Callable[[FleetSnapshot], None]) -> None:
        """Read the folder if it has changed, if it could not be used last time, or if `force` is true.

        Parameters
        ----------
        load : callable
            Loads a snapshot into the engines, or raises and changes nothing.
        """
        try:
            fleet = Fleet(self._folder)
            mark = fleet.fingerprint()
            if mark == self._mark and not self.problem and not force:
                return
            if fleet.name != self.name:
                raise FleetError(f"the fleet's name changed from {self.name!r} to {fleet.name!r}. Restart the gateway.")
            snapshot = take_snapshot(fleet)
            if self._store is not None:
                refuse_uneven(snapshot.profiles, self._store.bucket_seconds)
                self._store.follow_registry(snapshot.history.follow)
            load(snapshot)
        except Exception as error:
            self._refuse(error)
            return
        self.snapshot, self._mark, self.problem, self.restored = snapshot, mark, None, False
        self._metrics.reloaded(ok=True)
        _log.info(
            "reloaded", devices=len(snapshot.devices), revoked=len(snapshot.revoked), profiles=len(snapshot.profiles)
        )

    def _refuse(self, error: Exception) -> None:
        """Keep the current snapshot, and log each new cause once. The folder is read again until it can be used."""
        self.restored = isinstance(error, RestoredFolder)
        expected = isinstance(error, FleetError | StoreError)
        cause = str(error) if expected else f"{type(error).__name__}: {error}"
        if cause == self.problem:
            return
        self.problem = cause
        self._metrics.reloaded(ok=False)
        log = _log.error if expected else _log.exception
        log("reload refused; devices and profiles are unchanged", cause=cause)
