# SPDX-License-Identifier: MIT
"""`peel fleet accept-restored`: go on with a fleet folder from an old copy."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from peel_gateway.commands.shared import config_option, explained, find_used_settings
from peel_gateway.fleet.commands import folder_argument
from peel_gateway.fleet.registry import Fleet, device_label
from peel_gateway.printing import json_option, print_json
from peel_gateway.settings import SettingsError
from peel_gateway.storage.choice import open_archive

__all__ = ["accept_restored"]


@click.command("accept-restored")
@folder_argument
@config_option
@json_option
def accept_restored(folder: Path, config: Path | None, as_json: bool) -> None:
    """Go on with a folder that was restored from an old copy, where the newest one is lost. Stop the gateway first.

    The gateway takes the folder then. Ids continue above the highest that was given out, and each device's numbers above the highest that
    the gateway has stored. Revocations since the copy was made are lost: repeat them.
    """
    with explained():
        settings = find_used_settings(config)
        if settings.fleet_folder.resolve() != folder.resolve():
            raise SettingsError(
                f"fleet.folder: the gateway's is {settings.fleet_folder}, not {folder}; name its settings with --config"
            )
        with closing(open_archive(settings)) as archive:
            heard = archive.devices()
            accepted = Fleet(folder).accept(archive.registry(), heard.device, heard.last_number)
    rows = {name: list(map(device_label, ids)) for name, ids in accepted._asdict().items()}
    if as_json:
        print_json(rows)
        return
    click.echo(
        f"{folder}: accepted. Repeat the revocations made since the copy; `peel fleet audit` lists those before."
    )
    if rows["without_bundle"]:
        click.echo(
            f"their newest bundle is lost; write a fresh one for each (`peel fleet bundle`): {', '.join(rows['without_bundle'])}"
        )
    if rows["unknown"]:
        click.echo(
            f"enrolled after the copy was made; enrol them again (`peel fleet add --id`): {', '.join(rows['unknown'])}"
        )
