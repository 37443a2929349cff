# SPDX-License-Identifier: MIT
"""`peel gateway backup` and `restore`: the database as one file, and back."""

from __future__ import annotations

from pathlib import Path

import click

from peel_gateway.commands.shared import config_option, explained, find_settings, find_used_settings
from peel_gateway.printing import json_option, print_json
from peel_gateway.storage.choice import back_up_store, restore_store

__all__ = ["backup", "restore"]

_file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


@click.command()
@_file_argument
@config_option
@json_option
def backup(file: Path, config: Path | None, as_json: bool) -> None:
    """Copy the database into FILE, which must be new, and check the copy; the gateway may run meanwhile.

    The copy does not contain the fleet folder. Copy that too, and keep its master key apart.
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
    """Check the copy in FILE and make it the database; the former database is kept beside it.

    Stop the gateway first. Reports that came after the copy are not in it, and devices do not send them again. Their
    numbers show as missing; no device is exposed for that.
    """
    with explained():
        settings = find_settings(config)
        aside = restore_store(settings, file)
    if as_json:
        print_json({"database": str(settings.store_path), "former": str(aside) if aside else None})
    else:
        click.echo(f"{settings.store_path}: restored{f'; the former one is {aside}' if aside else ''}")
