# SPDX-License-Identifier: MIT
"""Leases: who owns which share, on the server's clock.

A lease has an epoch, which grows with every owner. A transaction of a `PostgresStore` reads it under the share's writer lock and is refused
where it is another one; whoever takes a share takes that lock too, so that nothing of the former owner commits afterwards. Sessions of
former owners are ended: one that was stopped in the middle of a transaction would otherwise hold the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from peel_gateway.storage.postgres.session import Address, Session, translated
from peel_gateway.storage.store import Lease, Leases

__all__ = ["PostgresLeases", "lock_share", "session_name"]


def session_name(schema: str, share: int, epoch: int | None) -> str:
    """What a share's writer calls itself on the server, which takes 63 bytes: schemas have at most 40."""
    return f"peel {schema}.{share} by hand" if epoch is None else f"{_owners(schema, share)}{epoch}"


def _owners(schema: str, share: int) -> str:
    """How the names of all owners' sessions begin."""
    return f"peel {schema}.{share} epoch "


def lock_share(raw: psycopg.Connection, share: int) -> None:
    """Wait for the share's writer lock: until the transaction ends nobody else writes."""
    raw.execute("SELECT value FROM meta WHERE share = %s AND key = 'generation' FOR UPDATE", (share,))


class PostgresLeases(Leases):
    """The leases of a database. Every method is one transaction."""

    def __init__(self, address: Address, *, timeout: float = 10.0) -> None:
        self._place, self._schema = address.place, address.schema
        self._lock = threading.Lock()
        self._session = Session(address, "peel leases", lock_timeout=f"{round(timeout * 1000)}ms")

    def all(self) -> list[Lease]:
        with self._transaction() as raw:
            return [Lease(*row) for row in raw.execute(f"{_SELECT} ORDER BY share").fetchall()]

    def acquire(self, share: int, owner: str, seconds: float) -> Lease | None:
        with self._transaction() as raw:
            found = raw.execute(
                f"""UPDATE lease SET owner = %s, epoch = epoch + 1, {_FROM_NOW}
                    WHERE share = %s AND NOT {_LASTS} RETURNING epoch""",
                (owner, seconds, seconds, share),
            ).fetchone()
            if found is None:
                return None
            (epoch,) = found
            raw.execute(_END_FORMER, (_owners(self._schema, share), session_name(self._schema, share, epoch)))
            lock_share(raw, share)
        return Lease(share, owner, epoch, seconds)

    def renew(self, lease: Lease, seconds: float) -> bool:
        with self._transaction() as raw:
            done = raw.execute(
                f"UPDATE lease SET {_FROM_NOW} WHERE share = %s AND epoch = %s AND owner = %s",
                (seconds, seconds, lease.share, lease.epoch, lease.owner),
            )
            return done.rowcount == 1

    def release(self, lease: Lease) -> None:
        with self._transaction() as raw:
            raw.execute(
                "UPDATE lease SET owner = '', until = '-infinity' WHERE share = %s AND epoch = %s AND owner = %s",
                (lease.share, lease.epoch, lease.owner),
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
                self._session.close()  # which rolls back
                raise


_FROM_NOW = "until = clock_timestamp() + make_interval(secs => %s), seconds = %s"
_LEFT = "EXTRACT(EPOCH FROM until - clock_timestamp())::float8"
# Where more is left than was ever given, the server's clock was set back since: without a bound the shares of a worker that has died
# would have no owner for as long as that. Twice, so that a clock that is put right by a little takes nothing from anybody.
_LASTS = "(until > clock_timestamp() AND until < clock_timestamp() + make_interval(secs => 2 * seconds))"
_SELECT = f"SELECT share, owner, epoch, CASE WHEN {_LASTS} THEN {_LEFT} ELSE -1 END FROM lease"
_END_FORMER = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND usename = current_user AND starts_with(application_name, %s) AND application_name != %s
"""
