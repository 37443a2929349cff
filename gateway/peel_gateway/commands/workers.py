# SPDX-License-Identifier: MIT
"""`peel gateway workers`: who serves which partitions of the fleet."""

from __future__ import annotations

from pathlib import Path

import click

from peel_gateway.commands.shared import config_option, explained, find_settings
from peel_gateway.printing import json_option, print_json, print_table
from peel_gateway.queries.table import Table
from peel_gateway.settings import SettingsError
from peel_gateway.storage.choice import open_leases
from peel_gateway.storage.store import Leases

__all__ = ["workers"]


@click.command()
@config_option
@json_option
def workers(config: Path | None, as_json: bool) -> None:
    """Which worker owns which partition of the fleet, and for how long without a word from it (PostgreSQL only)."""
    with explained():
        leases = open_leases(find_settings(config))
        if leases is None:
            raise SettingsError("store.url: is not set; an SQLite file has one partition, and whoever runs owns it")
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


def _partitions(leases: Leases) -> list[Table]:
    """All partitions; the owner of one that has run out is nobody."""
    return [
        {
            "partition": lease.partition,
            "owner": lease.owner if lease.seconds >= 0 else None,
            "epoch": lease.epoch,
            "seconds": round(lease.seconds, 3) if lease.seconds >= 0 else None,
        }
        for lease in leases.all()
    ]
