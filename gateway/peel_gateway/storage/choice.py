# SPDX-License-Identifier: MIT
"""Open, copy, restore and upgrade the store that the settings name. Only this module knows both databases."""

from __future__ import annotations

import dataclasses
import importlib
import os
import shlex
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peel_gateway.files import foreign_owner
from peel_gateway.settings import Settings, SettingsError
from peel_gateway.settings.reading import without_password
from peel_gateway.storage.sql.schema import Upgraded, schema_version
from peel_gateway.storage.sqlite.files import GatewayLock, copy_database, own_files, rename_database, unused_name
from peel_gateway.storage.sqlite.schema import check_old, upgrade_file, version_of
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_gateway.storage.store import Archive, Store, StoreFailed

if TYPE_CHECKING:
    from peel_gateway.storage.leases import Leases

__all__ = [
    "back_up_store",
    "distribution",
    "missing_store",
    "no_gateway",
    "open_archive",
    "open_leases",
    "open_store",
    "refuse_target",
    "restore_store",
    "upgrade_store",
]


def open_archive(settings: Settings) -> Archive:
    """Open the store for reading, all partitions. Create it if it does not exist."""
    if settings.store_url is None:
        return open_store(settings)
    archive: Archive = _postgres().PostgresArchive(**_where(settings))
    return archive


def open_store(settings: Settings, partition: int = 0, *, epoch: int | None = None, gateway: bool = False) -> Store:
    """Open the store for writing, and create it if it does not exist.

    On PostgreSQL: one partition, under the lease with this epoch. On SQLite: `gateway` takes the lock that keeps a second gateway out.
    """
    if settings.store_url is not None:
        store: Store = _postgres().PostgresStore(**_where(settings), partition=partition, epoch=epoch)
        return store
    if partition:
        raise ValueError(f"partition {partition}: an SQLite file has only partition 0")
    return SqliteStore(settings.store_path, gateway=gateway, **_how(settings))


def open_leases(settings: Settings) -> Leases | None:
    """Open the leases on partitions; return None for an SQLite file, which has one gateway."""
    if settings.store_url is None:
        return None
    archive = _postgres().PostgresArchive(**_where(settings))  # creates the tables, or checks their version
    leases: Leases = archive.leases()
    return leases


def distribution(settings: Settings) -> str:
    """Return the statements that distribute the tables over a Citus cluster."""
    if settings.store_url is None:
        raise SettingsError(
            "store.url: is not set; an SQLite file cannot be distributed. Set store.url to a PostgreSQL database."
        )
    statements: str = _postgres("schema").distribution(settings.store_schema)
    return statements


def _postgres(module: str = "store") -> types.ModuleType:
    """Import a module of the PostgreSQL store, which needs the `postgres` extra."""
    try:
        return importlib.import_module(f"peel_gateway.storage.postgres.{module}")
    except ImportError as error:
        raise StoreFailed(
            f"store.url: needs psycopg, which is not installed ({error}). Run pip install 'peel-telemetry[postgres]'."
        ) from None


def _where(settings: Settings) -> dict[str, Any]:
    assert settings.store_url is not None, "no database is named"
    return {
        "url": settings.store_url.reveal().decode(),
        "schema": settings.store_schema,
        "partitions": settings.store_partitions,
        **_how(settings),
    }


def _how(settings: Settings) -> dict[str, Any]:
    return {
        "bucket_seconds": settings.store_bucket_seconds,
        "quarantine_limit": settings.quarantine_pieces,
        "quarantine_bytes": settings.quarantine_bytes,
        "timeout": settings.store_lock_seconds,
    }


def missing_store(settings: Settings) -> str:
    """Return a message if the store does not exist yet, otherwise an empty string."""
    if settings.store_url is None:
        return "" if settings.store_path.exists() else f"store.path: {settings.store_path}: no such file"
    found: bool = _postgres().is_made(settings.store_url, settings.store_schema)
    return "" if found else f"store.url: the schema {settings.store_schema} has no tables"


def back_up_store(settings: Settings, path: Path) -> None:
    """Write a checked copy of the store into a new file; a gateway may run meanwhile.

    The copy gets its name after the store has a new mark. So a gateway always recognises the copy if it is put back.
    """
    _refuse_server(settings, _dump_command(settings))
    refuse_target(settings, path)

    def finish(copy: Path) -> None:
        if _check(settings, copy):
            _renew_mark(settings)

    copy_database(settings.store_path, path, finish)


def _renew_mark(settings: Settings) -> None:
    """Replace the store's mark (SPEC section 13.5), so that no copy made before has a valid one."""
    _refuse_foreign(settings.store_path)  # the gateway could not read the file with the marks
    store = open_store(settings)
    try:
        # Each renewal also keeps the mark before it, in case of a crash. The copy has that one, so it takes two.
        for _ in range(2):
            with store.begin() as transaction:
                transaction.renew_mark(store.next_mark(transaction.mark))
    finally:
        store.close()


def refuse_target(settings: Settings, path: Path) -> None:
    """Refuse to write a database into an existing file, a file that the store uses, or the fleet folder."""
    if os.path.lexists(path):
        raise SettingsError(f"{path}: exists already and is not overwritten; choose a new name")
    folder = path.absolute().parent
    for own in own_files(settings.store_path):
        if own.name == path.name and _same(own.absolute().parent, folder):
            raise SettingsError(
                f"{path}: SQLite or the gateway uses this name for {settings.store_path}; choose another"
            )
    if any(_same(settings.fleet_folder, each) for each in (folder.resolve(), *folder.resolve().parents)):
        raise SettingsError(f"{path}: is inside the fleet folder {settings.fleet_folder}; choose another folder")


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def restore_store(settings: Settings, path: Path) -> Path | None:
    """Make a copy of the file at `path` the store, once checked; return where the former store is now. No gateway may run."""
    _refuse_server(settings, f"pg_restore --clean --if-exists --dbname {_shown(settings)} COPY")
    target = settings.store_path.resolve()  # where SQLite keeps what belongs to it
    if _same(path, target):
        raise SettingsError(f"{path}: is the database itself; name a copy")
    _refuse_foreign(target)
    with GatewayLock(target):
        incoming = unused_name(target, "restored")
        copy_database(path, incoming, lambda copy: _check(settings, copy), in_use=False)
        former = unused_name(target, "before") if target.exists() else None
        rename_database(target, former or unused_name(target, "stray"))
        incoming.rename(target)
    return former


def _refuse_foreign(database: Path) -> None:
    """Raise where another user owns the database, or the folder for it: the gateway could not read the new file."""
    if why := foreign_owner(database if database.exists() else database.absolute().parent):
        raise SettingsError(why)


@contextmanager
def no_gateway(settings: Settings) -> Iterator[None]:
    """Raise if a gateway runs on the store. On SQLite, keep gateways from starting meanwhile."""
    if settings.store_url is None:
        with GatewayLock(settings.store_path):
            yield
        return
    _postgres("schema").refuse_owners(_postgres("connection").Address(settings.store_url, settings.store_schema))
    yield


def upgrade_store(settings: Settings, *, backed_up: bool) -> Upgraded:
    """Bring the store to the version that this gateway needs. No gateway may run.

    A file is copied first. For a database on a server, `backed_up` says that the operator has a copy.
    """
    if settings.store_url is None:
        _refuse_foreign(settings.store_path)
        return upgrade_file(settings.store_path.resolve(), settings.store_lock_seconds)
    if not backed_up:
        raise SettingsError(
            f"store.url: an upgrade needs a copy first. Stop all gateways, run `{_dump_command(settings)}`, "
            "then `peel gateway upgrade --backed-up`"
        )
    upgraded: Upgraded = _postgres("schema").upgrade_database(
        settings.store_url.reveal().decode(), settings.store_schema, settings.store_lock_seconds
    )
    return upgraded


def _refuse_server(settings: Settings, command: str) -> None:
    """Refuse a PostgreSQL store: its own tools copy all partitions at one moment."""
    if settings.store_url is not None:
        raise SettingsError(f"store.url: this command copies SQLite files only. For PostgreSQL run `{command}`.")


def _dump_command(settings: Settings) -> str:
    schema = settings.store_schema
    return f"pg_dump --format custom --schema {schema} --file COPY {_shown(settings)}" if settings.store_url else ""


def _shown(settings: Settings) -> str:
    """Return the address of the server without passwords, as a word of a shell command."""
    return shlex.quote(without_password(settings.store_url.reveal().decode())) if settings.store_url else ""


def _check(settings: Settings, path: Path) -> int:
    """Open a copy with the settings and verify it. A copy of an older version gets only SQLite's integrity check.

    Return the copy's mark, 0 if it has none.
    """
    if version_of(path) < schema_version():
        check_old(path)
        return 0
    store = open_store(dataclasses.replace(settings, store_path=path))
    try:
        store.check()
        with store.begin() as transaction:
            return transaction.mark
    finally:
        store.close()
