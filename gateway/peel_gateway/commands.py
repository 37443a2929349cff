# SPDX-License-Identifier: MIT
"""`peel gateway`: run the service, ask its database, check it, screen again what was quarantined."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from peel_gateway.answers.query import MOST_ITEMS, estimate_query, exposure_page
from peel_gateway.answers.table import Table
from peel_gateway.answers.views import Views
from peel_gateway.audit_commands import audit, pardon
from peel_gateway.backup_commands import backup, restore
from peel_gateway.command_tools import config_option, explained, find_settings, given_as_query, opened, yes_or_no
from peel_gateway.device_commands import devices
from peel_gateway.engine.recount import recount as recount_store
from peel_gateway.engine.replay import ReplayReport
from peel_gateway.engine.replay import replay as replay_store
from peel_gateway.estimation.estimate import Choice
from peel_gateway.exits import Exit
from peel_gateway.export_commands import export
from peel_gateway.logs import configure_logs
from peel_gateway.migrate_commands import migrate, schema
from peel_gateway.model.share import Share
from peel_gateway.model.tables import ExposureFilter
from peel_gateway.printing import json_option, print_json, print_table
from peel_gateway.service import open_views, run_service
from peel_gateway.settings import load_settings, with_store
from peel_gateway.settings_text import help_text, sample_toml
from peel_gateway.worker_commands import workers
from peel_gateway.workers.crew import open_engine

__all__ = ["gateway"]


@click.group()
def gateway() -> None:
    """Run the gateway; ask it for estimates and exposures."""


for command in (audit, backup, devices, export, migrate, pardon, restore, schema, workers):
    gateway.add_command(command)


@gateway.command(epilog="\b\nSettings, with their defaults:\n" + help_text())
@config_option
@click.option("--store", help="store.url, or store.path, whatever the settings say; passwords do not belong here.")
def run(config: Path | None, store: str | None) -> None:
    """Run the service until SIGTERM or Ctrl-C; SIGHUP reloads devices and profiles.

    On a PostgreSQL database it runs as one of several workers, as many as there are.
    """
    with explained():
        settings = with_store(find_settings(config), store)
    configure_logs(settings.log_level, settings.log_format)
    sys.exit(run_service(settings))


@gateway.command()
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
        found = open_views(settings, store, lambda: snapshot).estimates(**query)
    if as_json:
        print_json({"items": found})
        return
    print_table(
        [
            *("start", "profile", "name", "over", "value", "low", "high", "unit", "edge", "n", "devices"),
            *("influence", "share", "device", "withdrawn", "value before"),
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
        page = Views(store, lambda: snapshot).exposures(**exposure_page(given_as_query(**given), blamed=blamed))
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


@gateway.command()
@config_option
@json_option
@_page_options
def exposures(config: Path | None, as_json: bool, **given: object) -> None:
    """Reports that only their device can have made wrong, newest first, with the evidence."""
    _list_exposures(config, as_json, blamed=True, **given)


@gateway.command()
@config_option
@json_option
@_page_options
def quarantine(config: Path | None, as_json: bool, **given: object) -> None:
    """Pieces that were refused and that nobody is blamed for, newest first."""
    _list_exposures(config, as_json, blamed=False, **given)


@gateway.command()
@config_option
@json_option
def recount(config: Path | None, as_json: bool) -> None:
    """Compute every published number again from the log; exit code 1 when one differs."""
    with opened(config) as (settings, store, snapshot):
        report = recount_store(store, snapshot, alpha=settings.screen_alpha)
    differences = [str(difference) for difference in report.differences]
    if as_json:
        print_json(
            {"agrees": report.agrees, "reports": report.reports, "devices": report.devices, "differences": differences}
        )
    else:
        for line in differences:
            click.echo(line)
        verdict = "agrees" if report.agrees else f"{len(differences)} differences"
        click.echo(f"{verdict}: {report.reports} reports of {report.devices} devices")
    if not report.agrees:
        sys.exit(Exit.FOUND)


@gateway.command()
@config_option
@json_option
@click.option("--verdict", help="Only these causes, separated by commas.")
@click.option("--device", help="Only this device, hexadecimal.")
def replay(config: Path | None, as_json: bool, **given: object) -> None:
    """Screen quarantined pieces again, after what was wrong has been put right; each at most once."""
    with opened(config) as (settings, archive, snapshot):
        which: ExposureFilter = exposure_page(given_as_query(**given), blamed=False)["which"]
        report = ReplayReport(0, {})
        for store in archive.stores():
            engine = open_engine(settings, store, snapshot, Share(store.share, store.shares))
            report += replay_store(store, engine, which)
    counts = {verdict.label: count for verdict, count in report.counts.items()}
    if as_json:
        print_json({"pieces": report.pieces, "accepted": report.accepted, "verdicts": counts})
        return
    click.echo(f"{report.pieces} pieces taken, {report.accepted} reports accepted")
    print_table(["verdict", "reports"], counts.items())


@gateway.command()
@config_option
@click.option("--sample", is_flag=True, help="Print the commented sample file.")
def settings(config: Path | None, sample: bool) -> None:
    """List the settings; with --config, check that file."""
    with explained():
        if config is not None:
            load_settings(config)
    click.echo(sample_toml() if sample else help_text(), nl=not sample)
