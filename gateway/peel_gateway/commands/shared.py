# SPDX-License-Identifier: MIT
"""Helpers of the commands: find the settings, open the database and the fleet, turn errors into one line and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import click

from peel_gateway.engine.pardon import PardonError
from peel_gateway.engine.release import ReleaseError
from peel_gateway.fleet.folder import Fleet, FleetError
from peel_gateway.fleet.snapshot import FleetSnapshot, take_snapshot
from peel_gateway.model.exposure import ReasonError
from peel_gateway.printing import explaining
from peel_gateway.queries.parameters import QueryError
from peel_gateway.queries.views import Views
from peel_gateway.settings import Settings, SettingsError
from peel_gateway.settings.reading import find_settings
from peel_gateway.storage.choice import missing_store, open_archive
from peel_gateway.storage.store import Archive, StoreError

__all__ = [
    "explained",
    "find_used_settings",
    "given_as_query",
    "opened",
    "warn_of_accident",
    "yes_or_no",
]


def explained() -> AbstractContextManager[None]:
    """Turn the gateway's errors into one line and their exit code."""
    return explaining(SettingsError, QueryError, ReasonError, PardonError, ReleaseError, FleetError, StoreError)


def find_used_settings(config: Path | None) -> Settings:
    """Return the settings. Raises SettingsError if the database does not exist."""
    settings = find_settings(config)
    if missing := missing_store(settings):
        raise SettingsError(f"{missing}. Has the gateway run yet? `peel gateway run` makes the database.")
    return settings


@contextmanager
def opened(config: Path | None, *, compared: bool = False) -> Iterator[tuple[Settings, Archive, FleetSnapshot]]:
    """Open the database and the fleet of the settings; the database must exist.

    `compared`: refuse a fleet folder that is older than the one that the database knows. It lacks keys, and revocations.
    """
    with explained():
        settings = find_used_settings(config)
        snapshot = take_snapshot(Fleet(settings.fleet_folder))
        store = open_archive(settings)
        try:
            if compared:
                snapshot.history.follow(store.registry())
            yield settings, store, snapshot
        finally:
            store.close()


def given_as_query(**values: object) -> dict[str, str]:
    """Return options as parameters of a query: commands and API check them alike."""
    return {name: str(value) for name, value in values.items() if value is not None}


def yes_or_no(flag: bool) -> str:
    """Return a switch as a parameter of a query."""
    return "yes" if flag else "no"


def warn_of_accident(views: Views) -> None:
    """Print, on standard error, that many devices were exposed together and the command that undoes it."""
    if accident := views.accident():
        click.echo(f"{accident['sentence']}\n  {accident['command']}", err=True)
