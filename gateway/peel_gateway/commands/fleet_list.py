# SPDX-License-Identifier: MIT
"""`peel fleet list`: the registry at once; what the gateway knows is loaded only where its database is at hand."""

from __future__ import annotations

from pathlib import Path

import click

from peel_gateway.fleet.commands import device_rows, folder_argument
from peel_gateway.fleet.registry import Fleet, FleetError
from peel_gateway.printing import explaining, json_option, print_json, print_table
from peel_gateway.settings import Settings, SettingsError
from peel_gateway.settings.option import config_option, find_settings

__all__ = ["list_devices"]


@click.command("list")
@folder_argument
@config_option
@json_option
def list_devices(folder: Path, config: Path | None, as_json: bool) -> None:
    """List the devices, with what their gateway knows of them where its database is at hand.

    What is left of a lifetime is what a fresh bundle would have: numbers that may have been used count as used. Firmware, skipped
    readings, dropped frames and randomness are the devices' own words.
    """
    with explaining(FleetError, SettingsError):
        fleet = Fleet(folder)
        devices = fleet.devices()
        rows = device_rows(devices, left=fleet.left(devices))
        settings = find_settings(config)
        ours = settings.fleet_folder.resolve() == folder.resolve()
        if config is not None and not ours:
            raise SettingsError(f"{config}: is about the fleet in {settings.fleet_folder}, not {folder}")
    if ours and _is_at_hand(settings):
        from peel_gateway.commands.devices import show_known_devices  # the store and all that reads it

        show_known_devices(settings, fleet, rows, as_json)
    elif as_json:
        print_json({"items": rows})
    else:
        print_table(list(rows[0]) if rows else ["device"], [list(row.values()) for row in rows])


def _is_at_hand(settings: Settings) -> bool:
    if settings.store_url is None:
        return settings.store_path.exists()
    from peel_gateway.storage.choice import missing_store
    from peel_gateway.storage.store import StoreError

    with explaining(StoreError):
        return not missing_store(settings)
