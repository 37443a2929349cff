# SPDX-License-Identifier: MIT
"""`peel gateway estimates`, `change`, `devices`, `exposures`, `quarantine` and `export`: read the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from peel_gateway.commands.evidence import write_evidence
from peel_gateway.commands.shared import explained, given_as_query, opened, warn_of_accident, yes_or_no
from peel_gateway.estimation.estimate import Choice
from peel_gateway.fleet.claims import load_claims
from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.model.standing import Standing
from peel_gateway.printing import explaining, json_option, print_json, print_table
from peel_gateway.queries.export import TABLES, ExportError, Source
from peel_gateway.queries.export import export as write_export
from peel_gateway.queries.parameters import (
    MOST_ITEMS,
    ChangeQuery,
    DeviceQuery,
    EstimateQuery,
    ExportQuery,
    ExposureQuery,
    QuarantineQuery,
    ReportQuery,
    parse_query,
)
from peel_gateway.queries.responses import Changes, Device, Distribution, Estimate, Estimates, Report
from peel_gateway.queries.views import Views, open_views
from peel_gateway.settings import Settings
from peel_gateway.settings.reading import config_option
from peel_gateway.storage.choice import open_archive

__all__ = ["change", "devices", "estimates", "export", "exposures", "quarantine", "show_known_devices"]

_LONGEST_BYTES = 64
"""Hexadecimal digits in a table of exposures. Longer ones are cut; `--json` has them."""


@click.command()
@config_option
@json_option
@click.option("--profile", help="One profile only.")
@click.option("--tag", help="Only the devices with this tag.")
@click.option("--tags", is_flag=True, help="Each tag by itself.")
@click.option("--since", help="Unix seconds or ISO 8601.")
@click.option("--until", help="Unix seconds or ISO 8601.")
@click.option("--bucket", type=int, help="Seconds per row; without it one row for the whole time.")
@click.option("--name", help="One attribute or category only.")
@click.option(
    "--top",
    type=int,
    help=f"Show only this many categories, the largest ones.  [default: {Choice.top}]",
)
@click.option("--above", type=float, help="Also the share of readings above this, of readings that have a ladder.")
@click.option(
    "--devices/--no-devices",
    default=True,
    help="Include the influence of single devices and means over devices.  [default: devices]",
)
def estimates(config: Path | None, as_json: bool, devices: bool, tags: bool, **given: object) -> None:
    """Show means, shares, medians and quantiles with 95% intervals, and one device's greatest influence."""
    with opened(config) as (settings, store, snapshot):
        options = given_as_query(**given, devices=yes_or_no(devices), tags=yes_or_no(tags))
        query = parse_query(EstimateQuery, options)
        claims = load_claims(settings.claims_path).get
        found = open_views(settings, store, lambda: snapshot, claims).estimates(query)
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
    distributions = [(table, each) for table in found for each in table["distributions"]]
    if distributions:
        click.echo()
        print_table(
            ["start", "profile", "reading", "answer", "value", "low", "high", "unit", "n"],
            [line for table, each in distributions for line in _distribution_lines(table, each)],
        )
    for note in sorted({f"tag {table['tag']}: {table['note']}" for table in found if table.get("note")}):
        click.echo(note, err=True)


def _estimate_lines(table: Estimates, row: Estimate) -> Iterator[list[Any]]:
    """Yield a line for the mean over reports and one for the mean over devices."""
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


def _distribution_lines(table: Estimates, found: Distribution) -> Iterator[list[Any]]:
    """Yield a line for each quantile, and for the share above the threshold that was asked for."""
    front = [table["start"], _whose(table), found["attribute"]]
    for each in found["quantiles"]:
        name = "median" if each["part"] == 0.5 else f"{100 * each['part']:g}% quantile"
        yield [*front, name, each["value"], each["low"], each["high"], found["unit"], found["n"]]
    if found["above"] is not None:
        above = found["above"]
        yield [
            *front,
            f"share above {above['threshold']:g}",
            above["value"],
            above["low"],
            above["high"],
            "",
            found["n"],
        ]


def _whose(table: Estimates | Changes) -> str:
    return f"{table['profile']} of {table['tag']}" if table["tag"] else str(table["profile"])


@click.command()
@config_option
@json_option
@click.option("--window", help="Compare the last 24h, 7d or 30min with as much time before.")
@click.option("--since", help="Start of the later span, instead of --window: Unix seconds or ISO 8601.")
@click.option("--until", help="End of the later span; without it now.")
@click.option("--before-since", help="Start of the earlier span.")
@click.option("--before-until", help="End of the earlier span; without it --since.")
@click.option("--profile", help="One profile only.")
@click.option("--tag", help="The devices with one tag only.")
@click.option("--name", help="One attribute or category only.")
@click.option("--top", type=int, help=f"Show only this many categories, the largest ones.  [default: {Choice.top}]")
@click.option("--devices/--no-devices", default=True, help="Also compare means over devices.  [default: devices]")
def change(config: Path | None, as_json: bool, devices: bool, **given: object) -> None:
    """Show how much each estimate changed between two spans of time, with a 95% interval."""
    with opened(config) as (settings, store, snapshot):
        query = parse_query(ChangeQuery, given_as_query(**given, devices=yes_or_no(devices)))
        found = open_views(settings, store, lambda: snapshot).changes(query)
    if as_json:
        print_json({"items": found})
        return
    for table in found:
        click.echo(
            f"{_whose(table)}, {table['since']} to {table['until']}, compared with {table['before_since']} to {table['before_until']}:"
        )
        for row in table["changes"]:
            click.echo(f"  {row['sentence']}")
            if row["over_devices"] is not None:
                click.echo(f"    {row['over_devices']['sentence']}")
        if table["note"]:
            click.echo(f"tag {table['tag']}: {table['note']}", err=True)


_SAID = ("firmware", "failing", "skipped", "dropped", "entropy", "refused")
"""The status fields of a device that listings show."""


@click.command()
@config_option
@json_option
@click.option("--profile", help="One profile only.")
@click.option("--tag", help="Only the devices with this tag.")
@click.option("--state", help=f"One of {', '.join(standing.label for standing in Standing)}.")
@click.option("--find", help="Part of an id or of a note.")
@click.option("--limit", type=int, default=100, show_default=True, help=f"Most rows, up to {MOST_ITEMS}.")
@click.option("--after", help="Continue above this device.")
def devices(config: Path | None, as_json: bool, **given: object) -> None:
    """List registered devices with their state, reports and status messages."""
    with opened(config) as (settings, store, snapshot):
        views = open_views(settings, store, lambda: snapshot, load_claims(settings.claims_path).get)
        page = views.devices(parse_query(DeviceQuery, given_as_query(**given)))
        warn_of_accident(views)
    if as_json:
        print_json(page)
        return
    rows: Sequence[Mapping[str, Any]] = page["items"]
    columns = (
        "device",
        "profile",
        "tags",
        "state",
        "exposed",
        "last_number",
        "left",
        "last_heard",
        *_coin_columns(rows),
    )
    print_table(
        [*(name.replace("_", " ") for name in columns), "accepted", *_SAID, "note"],
        [[*(row[key] for key in columns), row["reports"].get("accepted", 0), *_said(row), row["note"]] for row in rows],
    )
    if page["next"]:
        click.echo(f"more: --after {page['next']}", err=True)


def _coin_columns(rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Return the columns about verified coins; none if no listed device has such a profile."""
    return ("held", "stalled") if any(row.get("held") is not None for row in rows) else ()


def show_known_devices(settings: Settings, fleet: Fleet, rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Print rows of the device directory with what the database knows of the devices. "left" is the directory's."""
    with explained():
        known = _known(settings, fleet)
    rows = [{**row, **known.get(row["device"], {}), "left": row["left"]} for row in rows]
    if as_json:
        print_json({"items": rows})
        return
    columns = ("device", "profile", "tags", "state", "last_heard", "left", *_coin_columns(rows))
    print_table(
        [*(name.replace("_", " ") for name in columns), *_SAID, "note"],
        [[*(row.get(key) for key in columns), *_said(row), row["note"]] for row in rows],
    )


def _known(settings: Settings, fleet: Fleet) -> dict[str, Device]:
    snapshot = take_snapshot(fleet)
    store = open_archive(settings)
    try:
        views = open_views(settings, store, lambda: snapshot, load_claims(settings.claims_path).get)
        items = views.devices(DeviceQuery(limit=len(snapshot.devices) or 1))["items"]
    finally:
        store.close()
    return {row["device"]: row for row in items}


def _said(row: Mapping[str, Any]) -> Sequence[object]:
    claims = row["claims"] or {}
    refused = claims.get("refused")
    return [*(claims.get(name) for name in _SAID[:-1]), ", ".join(refused) if refused else None]


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


def _list_reports(query: type[ReportQuery], config: Path | None, as_json: bool, **given: object) -> None:
    with opened(config) as (_, store, snapshot):
        views = Views(store, lambda: snapshot)
        page = views.exposures(parse_query(query, given_as_query(**given)))
        warn_of_accident(views)
    if as_json:
        print_json(page)
        return
    print_table(
        ["id", "received", "verdict", "device", "number", "profile", "bytes", "evidence"],
        [_report_row(row) for row in page["items"]],
    )
    if page["next"]:
        click.echo(f"more: --before {page['next']}", err=True)


def _report_row(row: Report) -> list[Any]:
    evidence = " ".join(f"{key}={_shortened(str(value))}" for key, value in row["evidence"].items())
    return [
        *(row[key] for key in ("id", "received", "verdict", "device", "number", "profile")),
        len(row["raw"]) // 2,
        evidence,
    ]


def _shortened(value: str) -> str:
    """Return a value without the rest of long hexadecimal bytes."""
    return f"{value[:32]}…" if len(value) > _LONGEST_BYTES and value.isalnum() else value


@click.command()
@config_option
@json_option
@_page_options
@click.option(
    "--evidence", type=int, metavar="ID", help="Write the evidence of this exposure, for peel check-evidence."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The new file for --evidence.  [default: exposure-ID.json]",
)
def exposures(config: Path | None, as_json: bool, evidence: int | None, out: Path | None, **given: object) -> None:
    """List reports for which a device is to blame, newest first, with the evidence.

    With --evidence, write a private file that recomputes one verdict away from the gateway. It may have a key of the device, and says so.
    """
    if evidence is None:
        _list_reports(ExposureQuery, config, as_json, **given)
        return
    with opened(config) as (settings, archive, snapshot):
        written = write_evidence(settings, archive, snapshot, evidence, out)
    if as_json:
        print_json(written)
    else:
        click.echo(
            f"{written['file']}: device {written['device']}, verdict {written['verdict']}\n{written['gives_away']}"
        )


@click.command()
@config_option
@json_option
@_page_options
def quarantine(config: Path | None, as_json: bool, **given: object) -> None:
    """List refused reports for which no device is to blame, newest first."""
    _list_reports(QuarantineQuery, config, as_json, **given)


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@config_option
@json_option
@click.option(
    "--table", type=click.Choice(list(TABLES)), default="reports", show_default=True, help="The table to write."
)
@click.option("--since", help="Unix seconds or ISO 8601; without it from the beginning.")
@click.option("--until", help="Unix seconds or ISO 8601; without it up to now.")
@click.option("--tag", help="Only the devices with this tag.")
def export(file: Path, config: Path | None, as_json: bool, table: str, **given: object) -> None:
    """Write reports, estimates per time bucket, or exposures into FILE, whose name ends with .csv or .parquet.

    The gateway may run meanwhile. Parquet needs the extra: pip install 'peel-telemetry[parquet]'.
    """
    with opened(config) as (settings, store, snapshot), explaining(ExportError):
        source = Source(store, snapshot, open_views(settings, store, lambda: snapshot))
        rows = write_export(source, table, file, parse_query(ExportQuery, given_as_query(**given)))
    if as_json:
        print_json({"file": str(file), "table": table, "rows": rows})
    else:
        click.echo(f"{file}: {rows} rows")
