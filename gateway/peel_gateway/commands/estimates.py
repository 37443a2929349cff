# SPDX-License-Identifier: MIT
"""`peel gateway estimates`: what is published, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from peel_gateway.commands.shared import config_option, given_as_query, opened, yes_or_no
from peel_gateway.estimation.estimate import Choice
from peel_gateway.fleet.claims_file import load_claims
from peel_gateway.printing import json_option, print_json, print_table
from peel_gateway.queries.parameters import estimate_query
from peel_gateway.queries.table import Table
from peel_gateway.queries.views import open_views

__all__ = ["estimates"]


@click.command()
@config_option
@json_option
@click.option("--profile", help="One profile only.")
@click.option("--group", help="The devices of one group only.")
@click.option("--groups", is_flag=True, help="Each group by itself.")
@click.option("--since", help="Unix seconds or ISO 8601.")
@click.option("--until", help="Unix seconds or ISO 8601.")
@click.option("--bucket", type=int, help="Seconds per row; without it one row for the whole time.")
@click.option("--name", help="One attribute or category only.")
@click.option(
    "--top",
    type=int,
    help=f"How many categories, where there are more than {Choice.top}: the largest.  [default: {Choice.top}]",
)
@click.option(
    "--devices/--no-devices",
    default=True,
    help="Whether to say what single devices can do, and take means over devices too: reads the log.  [default: devices]",
)
def estimates(config: Path | None, as_json: bool, devices: bool, groups: bool, **given: object) -> None:
    """Means and frequencies with 95% intervals, over reports and over devices, and how far one device can move them."""
    with opened(config) as (settings, store, snapshot):
        query = estimate_query(given_as_query(**given, devices=yes_or_no(devices), groups=yes_or_no(groups)))
        claims = load_claims(settings.claims_path).get
        found = open_views(settings, store, lambda: snapshot, claims).estimates(**query)
    if as_json:
        print_json({"items": found})
        return
    print_table(
        [
            *("start", "profile", "name", "over", "value", "low", "high", "unit", "edge", "n", "devices"),
            *("influence", "share", "device", "withdrawn", "with exposed devices"),
        ],
        [line for table in found for row in table["estimates"] for line in _estimate_lines(table, row)],
    )
    for note in sorted({f"group {table['group']}: {table['note']}" for table in found if table.get("note")}):
        click.echo(note, err=True)


def _estimate_lines(table: Table, row: Table) -> Iterator[list[Any]]:
    """One for the mean over reports, one for the mean over devices."""
    for figure in (row, row["over_devices"]):
        if figure is None:
            continue
        yield [
            *(table["start"], _whose(table), row["name"], figure["over"]),
            *(figure[key] for key in ("value", "low", "high")),
            *(row["unit"], figure["edge"], row["n"], row["devices"]),
            *(figure[key] for key in ("influence", "influence_share", "influence_device")),
            *((row["withdrawn"], row["before_withdrawal"]["value"]) if figure is row else (None, None)),
        ]


def _whose(table: Table) -> str:
    return f"{table['profile']} of {table['group']}" if table["group"] else str(table["profile"])
