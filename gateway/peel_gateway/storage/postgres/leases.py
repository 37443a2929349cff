# SPDX-License-Identifier: MIT
"""Leases on partitions, timed by the server's clock.

Each new owner of a partition gets a larger epoch. A transaction of a `PostgresStore` takes the partition's writer lock, then fails with
`StoreLost` if the epoch has changed. A new owner takes that lock too, so the former owner commits nothing afterwards. `acquire` ends the
former owners' sessions, because a process stopped in the middle of a transaction would keep the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from peel_gateway.storage.leases import Lease, Leases
from peel_gateway.storage.postgres.connection import Address, Session, translated

__all__ = ["PostgresLeases", "lock_partition", "session_name"]

_IDLE_SECONDS = 2
"""The server ends a session that is idle this long within a transaction: a worker stopped while it renews would lock out all others."""


def session_name(schema: str, partition: int, epoch: int | None) -> str:
    """Return the application name of a partition's writer. The server keeps 63 bytes; schemas have at most 40."""
    return f"peel {schema}.{partition} by hand" if epoch is None else f"{_owners(schema, partition)}{epoch}"


def _owners(schema: str, partition: int) -> str:
    """Return the prefix of the session names of a partition's owners."""
    return f"peel {schema}.{partition} epoch "


def lock_partition(raw: psycopg.Connection, partition: int) -> None:
    """Take the partition's writer lock, which lasts until the transaction ends."""
    raw.execute("SELECT value FROM meta WHERE partition = %s AND key = 'generation' FOR UPDATE", (partition,))


class PostgresLeases(Leases):
    """Leases in a PostgreSQL database. Every method is one transaction."""

    def __init__(self, address: Address, *, timeout: float = 10.0) -> None:
        self._place, self._schema = address.place, address.schema
        self._lock = threading.Lock()
        self._session = Session(
            address,
            "peel leases",
            lock_timeout=f"{round(timeout * 1000)}ms",
            idle_in_transaction_session_timeout=f"{_IDLE_SECONDS}s",
        )

    def all(self) -> list[Lease]:
        with self._transaction() as raw:
            return [Lease(*row) for row in raw.execute(f"{_SELECT} ORDER BY partition").fetchall()]

    def acquire(self, partition: int, owner: str, seconds: float) -> Lease | None:
        with self._transaction() as raw:
            found = raw.execute(
                f"""UPDATE lease SET owner = %s, epoch = epoch + 1, {_FROM_NOW}
                    WHERE partition = %s AND NOT {_LASTS} RETURNING epoch""",
                (owner, seconds, seconds, partition),
            ).fetchone()
            if found is None:
                return None
            (epoch,) = found
            raw.execute(_END_FORMER, (_owners(self._schema, partition), session_name(self._schema, partition, epoch)))
            lock_partition(raw, partition)
        return Lease(partition, owner, epoch, seconds)

    def renew(self, lease: Lease, seconds: float) -> bool:
        with self._transaction() as raw:
            done = raw.execute(
                f"UPDATE lease SET {_FROM_NOW} WHERE partition = %s AND epoch = %s AND owner = %s",
                (seconds, seconds, lease.partition, lease.epoch, lease.owner),
            )
            return done.rowcount == 1

    def release(self, lease: Lease) -> None:
        with self._transaction() as raw:
            raw.execute(
                "UPDATE lease SET owner = '', until = '-infinity' WHERE partition = %s AND epoch = %s AND owner = %s",
                (lease.partition, lease.epoch, lease.owner),
            )

    def attend(self, owner: str, seconds: float) -> int:
        with self._transaction() as raw:
            raw.execute(f"DELETE FROM worker WHERE NOT {_LASTS} OR name = %s", (owner,))
            raw.execute(
                "INSERT INTO worker VALUES (%s, clock_timestamp() + make_interval(secs => %s), %s)",
                (owner, seconds, seconds),
            )
            ((count,),) = raw.execute("SELECT count(*) FROM worker").fetchall()
            return int(count)

    def depart(self, owner: str) -> None:
        with self._transaction() as raw:
            raw.execute("DELETE FROM worker WHERE name = %s", (owner,))

    def workers(self) -> dict[str, float]:
        with self._transaction() as raw:
            rows = raw.execute(f"SELECT name, {_LEFT} FROM worker WHERE {_LASTS} ORDER BY name").fetchall()
        return dict(rows)

    def close(self) -> None:
        with self._lock:
            self._session.close()

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection]:
        with self._lock, translated(self._place):
            raw = self._session.begin("BEGIN")
            try:
                yield raw
                self._session.end("COMMIT")
            except BaseException:
                self._session.close()  # rolls back
                raise


_FROM_NOW = "until = clock_timestamp() + make_interval(secs => %s), seconds = %s"
_LEFT = "EXTRACT(EPOCH FROM until - clock_timestamp())::float8"
# If more time is left than was given, the server's clock was set back. Without a bound, nobody could take a dead worker's partitions for as
# long as the clock was ahead. The bound is twice the time given, so that a small correction of the clock takes no lease away.
_LASTS = "(until > clock_timestamp() AND until < clock_timestamp() + make_interval(secs => 2 * seconds))"
_SELECT = f"SELECT partition, owner, epoch, CASE WHEN {_LASTS} THEN {_LEFT} ELSE -1 END FROM lease"
_END_FORMER = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND starts_with(application_name, %s) AND application_name != %s
"""
