# SPDX-License-Identifier: MIT
"""`peel gateway`: the group, with what runs the service and lists its settings."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from peel_gateway.commands.audit import audit, pardon
from peel_gateway.commands.backup import backup, restore
from peel_gateway.commands.clock import clock
from peel_gateway.commands.devices import devices
from peel_gateway.commands.estimates import estimates
from peel_gateway.commands.export import export
from peel_gateway.commands.exposures import exposures, quarantine
from peel_gateway.commands.migrate import migrate, schema, upgrade
from peel_gateway.commands.recount import recount, replay
from peel_gateway.commands.shared import config_option, explained, find_settings
from peel_gateway.commands.workers import workers
from peel_gateway.logs import configure_logs
from peel_gateway.printing import Group, in_two_columns
from peel_gateway.service.service import run_service
from peel_gateway.settings import load_settings, with_store
from peel_gateway.settings.text import help_rows, sample_toml

__all__ = ["gateway"]


@click.group(cls=Group)
def gateway() -> None:
    """Run the gateway; ask it for estimates and exposures."""


for command in (
    *(estimates, devices, exposures, quarantine, export),
    *(recount, replay, pardon, audit),
    *(backup, restore, upgrade, migrate, schema, workers, clock),
):
    gateway.add_command(command)


@gateway.command(epilog="\b\nSettings, with their defaults:\n" + in_two_columns(help_rows()))
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
@click.option("--sample", is_flag=True, help="Print the commented sample file.")
def settings(config: Path | None, sample: bool) -> None:
    """List the settings; with --config, check that file."""
    with explained():
        if config is not None:
            load_settings(config)
    click.echo(sample_toml() if sample else in_two_columns(help_rows()), nl=not sample)
