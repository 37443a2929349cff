# SPDX-License-Identifier: MIT
"""Checks of this machine: fleet folder, file modes, database, disk, clock, gateway, tools."""

from __future__ import annotations

import importlib.util
import shutil
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from peel_gateway.fleet.folder import Fleet, FleetError
from peel_gateway.fleet.snapshot import FleetSnapshot, take_snapshot
from peel_gateway.settings import Settings
from peel_gateway.storage.choice import missing_store, open_archive
from peel_gateway.storage.dead_letters import DeadLetters
from peel_gateway.storage.store import (
    Archive,
    Store,
    StoreAway,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreMismatch,
    StoreReplaced,
    StoreTooNew,
    StoreTooOld,
)
from peel_tools.doctor import BAD, GOOD, WARN, Finding
from peel_tools.servers.broker import find_mosquitto

__all__ = ["look_at_database", "look_at_files", "look_at_fleet", "look_at_gateway", "look_at_tools"]

_LITTLE_BYTES = 1 << 30
_NOTHING_BYTES = 100 << 20
_CLOCK_SECONDS = 60.0


def look_at_fleet(settings: Settings) -> Iterator[Finding]:
    """Check the key, the devices, the profiles, and bundles that were not deleted."""
    try:
        fleet = Fleet(settings.fleet_folder)
        snapshot = take_snapshot(fleet)
    except FleetError as error:
        yield Finding("fleet", BAD, str(error), "The gateway does not start, or stays with what it had.")
        return
    yield Finding(
        "fleet", GOOD, f"{fleet.name}: {len(snapshot.devices)} devices, {len(snapshot.profiles)} profiles, key in order"
    )
    yield from _bundles(fleet, snapshot)


def _bundles(fleet: Fleet, snapshot: FleetSnapshot) -> Iterator[Finding]:
    without = [device.label for device in snapshot.devices if not device.bundles]
    if without:
        yield Finding(
            "bundles",
            WARN,
            f"{len(without)} devices have none ({without[0]} is the first): the gateway has no keys for them",
            f"Write them: `peel fleet bundle {fleet.folder} {without[0]}`, and so on.",
        )
    left = [path for path in (fleet.folder / "bundles").glob("*.json") if path.is_file()]
    if left:
        yield Finding(
            "bundles",
            WARN,
            f"{len(left)} bundles with keys lie in {fleet.folder / 'bundles'}",
            "Delete each once it is on its device. For another board `peel fleet bundle` writes one with new keys.",
        )


def look_at_files(settings: Settings, config: Path | None) -> Iterator[Finding]:
    """Check whether other users can read private files."""
    private = [settings.fleet_folder, settings.store_path, settings.claims_path, settings.dead_letters_path, config]
    exposed = [path for path in private if path is not None and path.exists() and _open_to_others(path)]
    for path in exposed:
        yield Finding("modes", WARN, f"{path}: others can read it", f"Run: chmod go= {path}")
    if not exposed:
        yield Finding("modes", GOOD, "fleet folder and database are readable by their owner alone")


def _open_to_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def look_at_database(settings: Settings) -> Iterator[Finding]:
    """Check the database's integrity, the free disk space, the dead letters and the clock."""
    yield _room(settings.store_path.absolute().parent)
    if waiting := len(DeadLetters(settings.dead_letters_path)):
        yield Finding(
            "dead letters",
            WARN,
            f"{settings.dead_letters_path}: {waiting} messages that the gateway could not process",
            "Fix the cause (the gateway's log names it), then run: peel gateway replay --dead-letters",
        )
    try:
        if missing := missing_store(settings):
            yield Finding("database", WARN, f"{missing}: not there yet", "The gateway makes it at its first start.")
            return
        store = open_archive(settings)
        try:
            store.check()
            yield Finding("database", GOOD, f"{store.place}: sound, {store.size_bytes() / 1e6:.1f} MB")
            yield _clock(store)
        finally:
            store.close()
    except StoreError as error:
        yield Finding("database", BAD, str(error), _remedy(error))


def _remedy(error: StoreError) -> str:
    return next(remedy for kind, remedy in _REMEDIES if isinstance(error, kind))


_REMEDIES: tuple[tuple[type[StoreError], str], ...] = (
    (StoreTooOld, "Stop the gateway and run `peel gateway upgrade`."),
    (StoreTooNew, "Install the version of Peel that last ran on this database, or a newer one."),
    (StoreMismatch, "Set store.bucket_seconds and store.partitions to what the database has."),
    (
        StoreCorrupt,
        "Stop the gateway and run `peel gateway restore COPY`. The broker delivers again what was not acknowledged.",
    ),
    (StoreReplaced, "Move the same file back, or stop the gateway and restore the copy that it saves."),
    (StoreLocked, "Wait for the other process, or stop it."),
    (StoreAway, "Start the server, or correct store.url; nothing is lost meanwhile."),
    (StoreError, "Check the disk, the folder, its owner and mode; nothing is lost meanwhile."),
)
"""The remedy of the first class that matches."""


def _room(folder: Path) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("disk", BAD, f"{folder}: {error.strerror}", "Make the folder; store.path names it.")
    said = f"{folder}: {free / 1e9:.1f} GB free"
    if free < _NOTHING_BYTES:
        return Finding(
            "disk", BAD, said, "Free some: the gateway stores nothing when the disk is full, and loses nothing."
        )
    if free < _LITTLE_BYTES:
        return Finding("disk", WARN, said, "Free some, or lower store.retention_days.")
    return Finding("disk", GOOD, said)


def _clock(store: Archive) -> Finding:
    ahead = max(map(_last_seen, store.stores())) / 1000 - time.time()
    if ahead > _CLOCK_SECONDS:
        return Finding(
            "clock",
            BAD,
            f"{ahead:.0f} s behind the last report that was stored",
            "Set it, and keep it with NTP. If it is right, and was ahead before, run `peel gateway clock --believe`. "
            "Meanwhile floods are not judged, and nothing is deleted for its age.",
        )
    return Finding("clock", GOOD, "not behind the database")


def _last_seen(store: Store) -> int:
    """Return the clock at the last batch, or when an operator confirmed it, in Unix milliseconds."""
    with store.begin() as transaction:
        return transaction.clock().seen


def look_at_gateway(settings: Settings) -> Iterator[Finding]:
    """Check whether a gateway answers at the address in the settings."""
    if not settings.http_port:
        yield Finding("gateway", WARN, "http.port is 0: nobody can ask it how it is", "Set http.port.")
        return
    url = f"http://{settings.http_host}:{settings.http_port}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=5):
            yield Finding("gateway", GOOD, f"runs, and is well ({url})")
    except urllib.error.HTTPError as error:
        yield Finding("gateway", BAD, f"runs, and is not well ({error.code})", "With the token /healthz says why.")
    except OSError as error:
        cause = getattr(error, "reason", error)  # urllib wraps what the system says
        yield Finding(
            "gateway",
            WARN,
            f"does not answer at {url}: {getattr(cause, 'strerror', None) or cause}",
            "Start it: `peel gateway run`.",
        )


def look_at_tools() -> Iterator[Finding]:
    """List the optional tools that are installed."""
    there = {
        "mosquitto (demo, tests)": find_mosquitto() is not None,
        "pyarrow (export to Parquet)": importlib.util.find_spec("pyarrow") is not None,
        "mpremote (provisioning boards)": importlib.util.find_spec("mpremote") is not None,
    }
    here = ", ".join(name for name, found in there.items() if found) or "none"
    missing = ", ".join(name for name, found in there.items() if not found)
    yield Finding("tools", GOOD, f"{here}{f'; not here: {missing}' if missing else ''}")
