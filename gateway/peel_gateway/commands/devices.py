# SPDX-License-Identifier: MIT
"""`peel gateway devices`, and what `peel fleet list` shows where there is a database: what is known of the devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from peel_gateway.commands.shared import config_option, explained, given_as_query, opened, warn_of_accident
from peel_gateway.fleet.claims_file import load_claims
from peel_gateway.fleet.registry import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.model.standing import Standing
from peel_gateway.printing import json_option, print_json, print_table
from peel_gateway.queries.devices import DeviceFilter
from peel_gateway.queries.parameters import MOST_ITEMS, device_filter
from peel_gateway.queries.table import Table
from peel_gateway.queries.views import open_views
from peel_gateway.settings import Settings
from peel_gateway.storage.choice import open_archive

__all__ = ["devices", "show_known_devices"]

_SAID = ("firmware", "failing", "skipped", "dropped", "entropy", "refused")
"""What listings show of a device's own words."""


@click.command()
@config_option
@json_option
@click.option("--profile", help="One profile only.")
@click.option("--group", help="One group only.")
@click.option("--state", help=f"One of {', '.join(standing.label for standing in Standing)}.")
@click.option("--find", help="Part of an id or of a note.")
@click.option("--limit", type=int, default=100, show_default=True, help=f"Most rows, up to {MOST_ITEMS}.")
@click.option("--after", help="Continue above this device.")
def devices(config: Path | None, as_json: bool, **given: object) -> None:
    """Registered devices and what is known of them, by their reports and by their own word."""
    with opened(config) as (settings, store, snapshot):
        views = open_views(settings, store, lambda: snapshot, load_claims(settings.claims_path).get)
        page = views.devices(device_filter(given_as_query(**given)))
        warn_of_accident(views)
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


def show_known_devices(settings: Settings, fleet: Fleet, rows: Sequence[Table], as_json: bool) -> None:
    """Print rows of the registry, with what the gateway knows of the devices; what is left of a lifetime is the registry's."""
    with explained():
        known = _known(settings, fleet)
    rows = [row | known.get(row["device"], {}) | {"left": row["left"]} for row in rows]
    if as_json:
        print_json({"items": rows})
        return
    columns = ("device", "profile", "group", "state", "last_heard", "left")
    print_table(
        [*(name.replace("_", " ") for name in columns), *_SAID, "note"],
        [[*(row[key] for key in columns), *_said(row), row["note"]] for row in rows],
    )


def _known(settings: Settings, fleet: Fleet) -> dict[str, Table]:
    snapshot = take_snapshot(fleet)
    store = open_archive(settings)
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
