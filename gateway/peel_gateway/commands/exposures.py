# SPDX-License-Identifier: MIT
"""`peel gateway exposures` and `quarantine`: what was refused, with and without blame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from peel_gateway.commands.shared import config_option, given_as_query, opened, warn_of_accident
from peel_gateway.printing import json_option, print_json, print_table
from peel_gateway.queries.parameters import MOST_ITEMS, exposure_page
from peel_gateway.queries.table import Table
from peel_gateway.queries.views import Views

__all__ = ["exposures", "quarantine"]


def _page_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--before", type=int, help="Continue below this id."),
        click.option("--limit", type=int, default=100, show_default=True, help=f"Most rows, up to {MOST_ITEMS}."),
        click.option("--until", help="Unix seconds or ISO 8601."),
        click.option("--since", help="Unix seconds or ISO 8601."),
        click.option("--device", help="One device only, hexadecimal."),
        click.option("--verdict", help="One or more, separated by commas."),
    ):
        command = option(command)
    return command


def _list_exposures(config: Path | None, as_json: bool, *, blamed: bool, **given: object) -> None:
    with opened(config) as (_, store, snapshot):
        views = Views(store, lambda: snapshot)
        page = views.exposures(**exposure_page(given_as_query(**given), blamed=blamed))
        warn_of_accident(views)
    if as_json:
        print_json(page)
        return
    print_table(
        ["id", "received", "verdict", "device", "number", "profile", "bytes", "evidence"],
        [_exposure_row(row) for row in page["items"]],
    )
    if page["next"]:
        click.echo(f"more: --before {page['next']}", err=True)


def _exposure_row(row: Table) -> list[Any]:
    evidence = " ".join(f"{key}={value}" for key, value in row["evidence"].items())
    return [
        *(row[key] for key in ("id", "received", "verdict", "device", "number", "profile")),
        len(row["raw"]) // 2,
        evidence,
    ]


@click.command()
@config_option
@json_option
@_page_options
def exposures(config: Path | None, as_json: bool, **given: object) -> None:
    """Reports that only their device can have made wrong, newest first, with the evidence."""
    _list_exposures(config, as_json, blamed=True, **given)


@click.command()
@config_option
@json_option
@_page_options
def quarantine(config: Path | None, as_json: bool, **given: object) -> None:
    """Pieces that were refused and that nobody is blamed for, newest first."""
    _list_exposures(config, as_json, blamed=False, **given)
