# SPDX-License-Identifier: MIT
"""`peel gateway backup` and `restore`: the database as one file, and back."""

from __future__ import annotations

from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import click

from peel_gateway.commands.shared import config_option, explained, find_settings, find_used_settings
from peel_gateway.printing import json_option, print_json
from peel_gateway.settings import Settings, SettingsError
from peel_gateway.storage.choice import back_up_store, restore_store

__all__ = ["backup", "refuse_running", "restore"]

_file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@click.command()
@_file_argument
@config_option
@json_option
def backup(file: Path, config: Path | None, as_json: bool) -> None:
    """Copy the database into FILE, as of one moment, and check the copy; the gateway may run meanwhile.

    The fleet folder is not in it: copy that too, and keep its master key apart.
    """
    with explained():
        settings = find_used_settings(config)
        back_up_store(settings, file)
    if as_json:
        print_json({"file": str(file), "bytes": file.stat().st_size})
    else:
        click.echo(f"{file}: {file.stat().st_size / 1e6:.1f} MB, sound")


@click.command()
@_file_argument
@config_option
@json_option
def restore(file: Path, config: Path | None, as_json: bool) -> None:
    """Make the copy in FILE the database, once it is found to be sound; the former one is kept beside it.

    Stop the gateway first. Reports that came after the copy are not in it, and devices do not send them again: their numbers show as
    missing, and nobody is blamed.
    """
    with explained():
        settings = find_settings(config)
        refuse_running(settings)
        aside = restore_store(settings, file)
    if as_json:
        print_json({"database": str(settings.store_path), "former": str(aside) if aside else None})
    else:
        click.echo(f"{settings.store_path}: restored{f'; the former one is {aside}' if aside else ''}")


def refuse_running(settings: Settings) -> None:
    """Raise where a gateway answers at the address that the settings give it."""
    if not settings.http_port:
        return
    url = f"http://{settings.http_host}:{settings.http_port}/healthz"
    try:
        urlopen(url, timeout=5).close()
    except HTTPError:
        pass  # not well, but it runs
    except OSError:
        return
    raise SettingsError(f"a gateway answers at {url}: stop it first, or it writes into the database that it has open")
