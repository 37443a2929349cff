# SPDX-License-Identifier: MIT
"""The stores of a soak's gateways: a file, or a PostgreSQL database that several workers share."""

from __future__ import annotations

import abc
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from peel_core.topics import LANES
from peel_research.soak.errors import CannotError
from peel_tools.servers import Server
from peel_tools.servers.postgres import PostgresServer

__all__ = ["STORES", "FileStore", "ServerStore", "SoakStore"]

_LOCK_SECONDS = 1.0
_PARTITIONS = 4


class SoakStore(Server):
    """A store for reports. `settings` are the gateways' settings for it."""

    gateways: int
    """The number of gateways that use it."""
    filters: int
    """To how many a session of theirs subscribes for reports."""
    settings: Mapping[str, object]

    @abc.abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """Keep all others from writing; CannotError where somebody else does."""


class FileStore(SoakStore):
    """An SQLite file."""

    gateways = 1
    filters = 1

    def __init__(self, folder: Path) -> None:
        self._path = folder / "peel.sqlite"
        self.settings = {"store_path": self._path}

    def start(self) -> None:
        """A file is always there."""

    def close(self) -> None:
        """It stays."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        holder = sqlite3.connect(self._path, isolation_level=None, timeout=_LOCK_SECONDS)
        try:
            holder.execute("BEGIN IMMEDIATE")
            yield
            holder.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            raise CannotError(f"the database cannot be locked: {error}") from None
        finally:
            holder.close()


class ServerStore(SoakStore):
    """A PostgreSQL server, and two workers, whose leases run out while they are frozen."""

    gateways = 2
    filters = LANES // _PARTITIONS

    def __init__(self, folder: Path) -> None:
        self.server = PostgresServer()
        self.settings = {"store_url": self.server.url, "store_partitions": _PARTITIONS, "worker_lease_seconds": 2.0}

    def start(self) -> None:
        self.server.start()

    def close(self) -> None:
        self.server.close()

    @contextmanager
    def locked(self) -> Iterator[None]:
        import psycopg  # an extra of the package, which a soak on a file does without

        with psycopg.connect(self.server.url, options=f"-c lock_timeout={_LOCK_SECONDS:g}s") as holder:
            try:
                holder.execute("SELECT FROM peel.meta WHERE key = 'generation' FOR UPDATE")
            except psycopg.errors.LockNotAvailable as error:
                raise CannotError(f"the database cannot be locked: {error}") from None
            yield
            holder.rollback()


STORES: Mapping[str, Callable[[Path], SoakStore]] = {"sqlite": FileStore, "postgres": ServerStore}
