# SPDX-License-Identifier: MIT
"""`peel gateway recount` and `replay`: everything again from the log, and again what was quarantined."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from peel_gateway.answers.query import exposure_page
from peel_gateway.commands.shared import config_option, given_as_query, opened
from peel_gateway.engine.recount import recount as recount_store
from peel_gateway.engine.replay import ReplayReport
from peel_gateway.engine.replay import replay as replay_store
from peel_gateway.exits import Exit
from peel_gateway.model.exposure import ExposureFilter
from peel_gateway.model.share import Share
from peel_gateway.printing import json_option, print_json, print_table
from peel_gateway.workers.crew import open_engine

__all__ = ["recount", "replay"]


@click.command()
@config_option
@json_option
def recount(config: Path | None, as_json: bool) -> None:
    """Compute every published number again from the log; exit code 1 when one differs."""
    with opened(config) as (settings, store, snapshot):
        report = recount_store(store, snapshot, alpha=settings.screen_alpha, room=settings.screen_memory_bytes)
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


@click.command()
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
