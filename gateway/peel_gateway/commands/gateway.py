# SPDX-License-Identifier: MIT
"""The group `peel gateway`, with `run`, `settings`, `workers` and `clock`."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from peel_gateway.commands.audit import audit, pardon, release
from peel_gateway.commands.database import backup, migrate, restore, schema, upgrade
from peel_gateway.commands.queries import change, devices, estimates, export, exposures, quarantine
from peel_gateway.commands.recount import recount, replay
from peel_gateway.commands.shared import explained, opened
from peel_gateway.engine.clock import advance, believe, read_clock
from peel_gateway.logs import configure_logs
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.printing import Group, in_two_columns, json_option, print_json, print_table
from peel_gateway.service.service import run_service
from peel_gateway.settings import SettingsError, load_settings, with_store
from peel_gateway.settings.alerts import prometheus_rules
from peel_gateway.settings.reading import config_option, find_config, find_settings
from peel_gateway.settings.table import help_rows, sample_toml
from peel_gateway.storage.choice import open_leases
from peel_gateway.storage.store import Store

if TYPE_CHECKING:
    from peel_gateway.storage.leases import Leases

__all__ = ["clock", "gateway", "workers"]


@click.command()
@config_option
@json_option
@click.option(
    "--believe", "believed", is_flag=True, help="The clock is right now; the later time seen before was wrong."
)
def clock(config: Path | None, as_json: bool, believed: bool) -> None:
    """Show whether the gateway trusts its machine's clock; with --believe, make it trust the clock.

    If the machine starts with an earlier time than before, the gateway treats its clock as behind until it reaches that time. Until then
    no device is exposed for a flood and nothing is deleted. If the clock was wrong before and is right now, that could take years:
    --believe ends it at once. For one more day nothing is deleted because of its age.
    """
    with opened(config) as (_, archive, _):
        rows = [_row(store.partition, _moment(store, believed)) for store in archive.stores()]
    if as_json:
        print_json({"partitions": rows})
        return
    print_table(["partition", "the gateway's time", "behind until"], [list(row.values()) for row in rows])


def _moment(store: Store, believed: bool) -> GatewayTime:
    with store.begin() as transaction:
        last, now = transaction.clock(), read_clock()
        if not believed:
            return advance(last, now)
        moment = believe(last, now)
        transaction.set_clock(moment)
    return moment


def _row(partition: int, moment: GatewayTime) -> dict[str, object]:
    return {
        "partition": partition,
        "time": _text(moment.seen),
        "behind_until": _text(moment.behind) if moment.behind else None,
    }


def _text(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


@click.command()
@config_option
@json_option
def workers(config: Path | None, as_json: bool) -> None:
    """List the workers, their partitions of the fleet, and the time left on their leases (PostgreSQL only)."""
    with explained():
        leases = open_leases(find_settings(config))
        if leases is None:
            raise SettingsError(
                "store.url: not set. Only a PostgreSQL database has workers: an SQLite file has one gateway."
            )
        try:
            there, partitions = leases.workers(), _partitions(leases)
        finally:
            leases.close()
    owned = {name: [row["partition"] for row in partitions if row["owner"] == name] for name in there}
    if as_json:
        rows = [{"worker": name, "seconds": round(there[name], 3), "partitions": owned[name]} for name in there]
        print_json({"workers": rows, "partitions": partitions})
        return
    print_table(["partition", "owner", "epoch", "seconds left"], [list(row.values()) for row in partitions])
    for name in there:
        click.echo(f"{name}: {len(owned[name])} of {len(partitions)} partitions")


def _partitions(leases: Leases) -> list[dict[str, object]]:
    """Return all partitions; one whose lease has run out has no owner."""
    return [
        {
            "partition": lease.partition,
            "owner": lease.owner if lease.seconds >= 0 else None,
            "epoch": lease.epoch,
            "seconds": round(lease.seconds, 3) if lease.seconds >= 0 else None,
        }
        for lease in leases.all()
    ]


@click.group(cls=Group)
def gateway() -> None:
    """Run the gateway; query its estimates and exposures."""


for command in (
    *(estimates, change, devices, exposures, quarantine, export),
    *(recount, replay, pardon, release, audit),
    *(backup, restore, upgrade, migrate, schema, workers, clock),
):
    gateway.add_command(command)


@gateway.command(epilog="\b\nSettings, with their defaults:\n" + in_two_columns(help_rows()))
@config_option
@click.option("--store", help="Overrides store.url or store.path. Do not put a password here.")
def run(config: Path | None, store: str | None) -> None:
    """Run the service until SIGTERM or Ctrl-C; SIGHUP reloads devices and profiles.

    On a PostgreSQL database several processes can run; each is a worker.
    """
    with explained():
        # The reader of the log may be in another folder: advice names the file even where it was found here.
        settings = with_store(find_settings(find_config(config)), store)
    configure_logs(settings.log_level, settings.log_format)
    sys.exit(run_service(settings))


@gateway.command("alert-rules")
@config_option
def alert_rules(config: Path | None) -> None:
    """Print a file of Prometheus rules for the alerts in the settings."""
    with explained():
        click.echo(prometheus_rules(find_settings(config).alerts), nl=False)


@gateway.command()
@config_option
@click.option("--sample", is_flag=True, help="Print the commented sample file.")
def settings(config: Path | None, sample: bool) -> None:
    """List the settings; with --config, check that file."""
    with explained():
        if config is not None:
            load_settings(config)
    click.echo(sample_toml() if sample else in_two_columns(help_rows()), nl=not sample)
