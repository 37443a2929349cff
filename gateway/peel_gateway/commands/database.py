# SPDX-License-Identifier: MIT
"""`peel gateway backup`, `restore`, `migrate`, `upgrade` and `schema`: copy and convert the database."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from pathlib import Path

import click

from peel_gateway.commands.shared import explained, find_used_settings, opened
from peel_gateway.engine.recount import RecountReport, recount
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_gateway.model.tables import Counts
from peel_gateway.printing import json_option, print_json
from peel_gateway.settings import Settings, with_store
from peel_gateway.settings.reading import config_option, find_settings
from peel_gateway.storage.choice import (
    back_up_store,
    distribution,
    no_gateway,
    open_archive,
    refuse_target,
    restore_store,
    upgrade_store,
)
from peel_gateway.storage.store import Archive, StoreMismatch

__all__ = ["backup", "migrate", "restore", "schema", "upgrade"]

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
        click.echo(f"{settings.store_path}: restored{f'; the former database is now {aside}' if aside else ''}")


@click.command()
@config_option
@json_option
@click.option(
    "--to",
    "destination",
    required=True,
    help="A new SQLite file, or postgresql://user@host/database, with a new store.schema and with store.partitions.",
)
def migrate(config: Path | None, as_json: bool, destination: str) -> None:
    """Copy everything into another database, and recount it there. The database in the settings is not changed.

    Stop all gateways first. Then set store.path or store.url to the new one, and start them again.
    """
    with opened(config, compared=True) as (settings, source, snapshot), ExitStack() as closes:
        target_settings = _named(settings, destination, source.bucket_seconds)
        closes.enter_context(no_gateway(settings))
        target = open_archive(target_settings)
        closes.callback(target.close)
        target.fill(source)
        report = _verified(source, target, snapshot, settings.screen_alpha)
        place, partitions = target.place, target.partitions
    if as_json:
        print_json({"database": place, "partitions": partitions, "reports": report.reports, "devices": report.devices})
    else:
        click.echo(
            f"{place}: {report.reports} reports of {report.devices} devices in {partitions} partitions, recounted"
        )


def _named(settings: Settings, destination: str, bucket_seconds: int) -> Settings:
    """Return the settings with another database. Raises SettingsError for an existing file."""
    named = dataclasses.replace(with_store(settings, destination), store_bucket_seconds=bucket_seconds)
    if named.store_url is None:
        refuse_target(settings, named.store_path)
    return named


def _verified(source: Archive, target: Archive, snapshot: FleetSnapshot, alpha: float) -> RecountReport:
    report = recount(target, snapshot, alpha=alpha)
    if report.agrees and _totals(source) == _totals(target):
        return report
    first = str(report.differences[0]) if report.differences else "other totals"
    raise StoreMismatch(
        f"{target.place}: the copy differs from {source.place} ({first}). Delete the copy. "
        "`peel gateway recount` checks whether the source agrees with its log."
    )


def _totals(archive: Archive) -> Counts:
    """Return the totals without the quarantine: several partitions may each hold a piece that one database holds once."""
    return dataclasses.replace(archive.counts(), quarantined=0, quarantined_bytes=0, dropped={})


@click.command()
@config_option
def schema(config: Path | None) -> None:
    """Print the statements that distribute a PostgreSQL database over the servers of a Citus cluster.

    Its owner runs them once, after the gateway has created the tables and before the first report.
    """
    with explained():
        click.echo(distribution(find_settings(config)), nl=False)


@click.command()
@config_option
@json_option
@click.option(
    "--backed-up",
    is_flag=True,
    help="You have a copy of the PostgreSQL database. The upgrade copies an SQLite file itself.",
)
def upgrade(config: Path | None, as_json: bool, backed_up: bool) -> None:
    """Upgrade a database to the version that this gateway needs.

    Stop all gateways first. A file is copied before it is changed. The upgrade is one transaction: an error changes nothing.
    """
    with explained():
        done = upgrade_store(find_used_settings(config), backed_up=backed_up)
    steps = [{"version": done.before + place, "summary": step.summary} for place, step in enumerate(done.steps, 1)]
    if as_json:
        copy = str(done.backup) if done.backup else None
        print_json({"database": done.place, "before": done.before, "after": done.after, "steps": steps, "backup": copy})
        return
    for step in steps:
        click.echo(f"version {step['version']}: {step['summary']}")
    said = f"upgraded from version {done.before} to {done.after}" if steps else f"has version {done.before} already"
    click.echo(f"{done.place}: {said}{f'; the former database is {done.backup}' if done.backup else ''}")
