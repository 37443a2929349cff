# SPDX-License-Identifier: MIT
"""`peel gateway migrate` and `schema`: everything from one database into another, and how one is spread over several servers."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack, closing
from pathlib import Path

import click

from peel_gateway.commands.backup import refuse_running
from peel_gateway.commands.shared import config_option, explained, find_settings, opened
from peel_gateway.engine.recount import RecountReport, recount
from peel_gateway.fleet.snapshot import Snapshot
from peel_gateway.model.tables import Counts
from peel_gateway.printing import json_option, print_json
from peel_gateway.settings import Settings, SettingsError, with_store
from peel_gateway.storage.choice import distribution, missing_store, open_archive, open_leases
from peel_gateway.storage.store import Archive, StoreMismatch

__all__ = ["migrate", "schema"]


@click.command()
@config_option
@json_option
@click.option(
    "--to",
    "destination",
    required=True,
    help="A new SQLite file, or postgresql://user@host/database, where store.schema must be new and store.shares is what it gets.",
)
def migrate(config: Path | None, as_json: bool, destination: str) -> None:
    """Copy everything into another database, and recount it there. The one that the settings name stays as it is.

    Stop all gateways first. Then set store.path or store.url to the new one, and start them again.
    """
    with opened(config) as (settings, source, snapshot), ExitStack() as closes:
        target_settings = _named(settings, destination, source.bucket_seconds)
        _refuse_writers(settings)
        target = open_archive(target_settings)
        closes.callback(target.close)
        target.fill(source)
        report = _verified(source, target, snapshot, settings.screen_alpha)
        place, shares = target.place, target.shares
    if as_json:
        print_json({"database": place, "shares": shares, "reports": report.reports, "devices": report.devices})
    else:
        click.echo(f"{place}: {report.reports} reports of {report.devices} devices in {shares} shares, recounted")


def _named(settings: Settings, destination: str, bucket_seconds: int) -> Settings:
    """The settings with another database, which must not be there yet if it is a file."""
    named = dataclasses.replace(with_store(settings, destination), store_bucket_seconds=bucket_seconds)
    if named.store_url is None and not missing_store(named):
        raise SettingsError(f"{destination}: is there already; name a new file")
    return named


def _refuse_writers(settings: Settings) -> None:
    refuse_running(settings)
    leases = open_leases(settings)
    if leases is None:
        return
    with closing(leases):
        owned = [lease for lease in leases.all() if lease.seconds > 0]
    if owned:
        raise SettingsError(f"share {owned[0].share} is owned by {owned[0].owner}: stop all gateways first")


def _verified(source: Archive, target: Archive, snapshot: Snapshot, alpha: float) -> RecountReport:
    report = recount(target, snapshot, alpha=alpha)
    if report.agrees and _totals(source) == _totals(target):
        return report
    first = str(report.differences[0]) if report.differences else "other totals"
    raise StoreMismatch(
        f"{target.place}: is not what {source.place} is ({first}); run no gateway on it, and remove it. "
        "`peel gateway recount` says whether the source agrees with its own log"
    )


def _totals(archive: Archive) -> Counts:
    """Without what several shares may hold each of and one holds once."""
    return dataclasses.replace(archive.counts(), quarantined=0, quarantined_bytes=0, dropped={})


@click.command()
@config_option
def schema(config: Path | None) -> None:
    """Print the statements that distribute a PostgreSQL database over the servers of a Citus cluster.

    To be run once by its owner, after the gateway has made the tables and before the first report.
    """
    with explained():
        click.echo(distribution(find_settings(config)), nl=False)
