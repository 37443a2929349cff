# SPDX-License-Identifier: MIT
"""`peel gateway devices` and `peel fleet list`: the devices, and what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from peel_gateway.answers.devices import DeviceFilter
from peel_gateway.answers.query import MOST_ITEMS, device_filter
from peel_gateway.answers.table import Table
from peel_gateway.command_tools import config_option, explained, find_settings, given_as_query, opened
from peel_gateway.fleet.claims_file import load_claims
from peel_gateway.fleet.commands import device_rows, folder_argument
from peel_gateway.fleet.registry import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.model.standing import Standing
from peel_gateway.printing import json_option, print_json, print_table
from peel_gateway.service import open_views
from peel_gateway.settings import Settings, SettingsError
from peel_gateway.storage.choice import open_store, store_exists

__all__ = ["devices", "list_devices"]

_SAID = ("firmware", "skipped", "dropped", "entropy", "refused")
"""What listings show of a device's own words."""


@click.command()
@config_option
@json_option
@click.option("--profile", help="One profile only.")
@click.option("--group", help="One group only.")
@click.option("--state", help=f"One of {', '.join(standing.label for standing in Standing)}.")
@click.option("--limit", type=int, default=100, show_default=True, help=f"Most rows, up to {MOST_ITEMS}.")
@click.option("--after", help="Continue above this device.")
def devices(config: Path | None, as_json: bool, **given: object) -> None:
    """Registered devices and what is known of them, by their reports and by their own word."""
    with opened(config) as (settings, store, snapshot):
        views = open_views(settings, store, lambda: snapshot, load_claims(settings.claims_path).get)
        page = views.devices(device_filter(given_as_query(**given)))
    if as_json:
        print_json(page)
        return
    columns = ("device", "profile", "group", "state", "exposed", "last_number", "left", "last_heard")
    print_table(
        [*(name.replace("_", " ") for name in columns), "accepted", *_SAID, "note"],
        [
            [*(row[key] for key in columns), row["reports"].get("accepted", 0), *_said(row), row["note"]]
            for row in page["items"]
        ],
    )
    if page["next"]:
        click.echo(f"more: --after {page['next']}", err=True)


@click.command("list")
@folder_argument
@config_option
@json_option
def list_devices(folder: Path, config: Path | None, as_json: bool) -> None:
    """List the devices, with what their gateway knows of them where its database is at hand.

    What is left of a lifetime is what a fresh bundle would have: numbers that may have been used count as used. Firmware, skipped
    readings, dropped frames and randomness are the devices' own words.
    """
    with explained():
        fleet = Fleet(folder)
        registered = fleet.devices()
        known = _known(fleet, config)
    rows = device_rows(registered, left=fleet.left(registered))
    rows = [row | known.get(row["device"], {}) | {"left": row["left"]} for row in rows]
    if as_json:
        print_json({"items": rows})
        return
    if not known:
        print_table(list(rows[0]) if rows else ["device"], [list(row.values()) for row in rows])
        return
    columns = ("device", "profile", "group", "state", "last_heard", "left")
    print_table(
        [*(name.replace("_", " ") for name in columns), *_SAID, "note"],
        [[*(row[key] for key in columns), *_said(row), row["note"]] for row in rows],
    )


def _known(fleet: Fleet, config: Path | None) -> dict[str, Table]:
    """What the gateway of a fleet knows of its devices; nothing where its database is not at hand."""
    settings = find_settings(config)
    if settings.fleet_folder.resolve() != fleet.folder.resolve():
        if config is not None:
            raise SettingsError(f"{config}: is about the fleet in {settings.fleet_folder}, not {fleet.folder}")
        return {}
    return _listed(settings, fleet) if store_exists(settings) else {}


def _listed(settings: Settings, fleet: Fleet) -> dict[str, Table]:
    snapshot = take_snapshot(fleet)
    store = open_store(settings)
    try:
        views = open_views(settings, store, lambda: snapshot, load_claims(settings.claims_path).get)
        items = views.devices(DeviceFilter(limit=len(snapshot.devices) or 1))["items"]
    finally:
        store.close()
    return {row["device"]: row for row in items}


def _said(row: Table) -> Sequence[object]:
    claims = row["claims"] or {}
    refused = claims.get("refused")
    return [*(claims.get(name) for name in _SAID[:-1]), ", ".join(refused) if refused else None]
