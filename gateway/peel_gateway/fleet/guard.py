# SPDX-License-Identifier: MIT
"""Opening a fleet folder to change it, compared with what its gateway's database knows of the registry."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from peel_gateway.fleet.history import History
from peel_gateway.fleet.registry import Fleet
from peel_gateway.settings import SettingsError
from peel_gateway.settings.option import find_settings

__all__ = ["open_to_change"]


def open_to_change(folder: Path, config: Path | None = None) -> Fleet:
    """Open a fleet folder whose changes are refused when its gateway has used a newer registry, where the database is at hand."""
    return Fleet(folder, guard=lambda history: _compare(folder, config, history))


def _compare(folder: Path, config: Path | None, history: History) -> None:
    from peel_gateway.storage.choice import missing_store, open_archive  # only where something is changed
    from peel_gateway.storage.store import StoreError

    try:
        settings = find_settings(config)
        if settings.fleet_folder.resolve() != folder.resolve() or missing_store(settings):
            return
        with closing(open_archive(settings)) as archive:
            seen = archive.registry()
    except (SettingsError, StoreError) as error:
        # A stolen board must be revocable while the database is away.
        click.echo(f"the folder was not compared with the gateway's database: {error}", err=True)
        return
    history.follow(seen)
