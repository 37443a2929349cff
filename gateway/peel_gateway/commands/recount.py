# SPDX-License-Identifier: MIT
"""`peel gateway recount` and `replay`: recompute everything from the log; process quarantined pieces and dead letters again."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from peel_gateway.commands.shared import given_as_query, opened
from peel_gateway.engine.recount import recount as recount_store
from peel_gateway.engine.replay import ReplayReport, replay_dead_letters
from peel_gateway.engine.replay import replay as replay_store
from peel_gateway.exits import Exit
from peel_gateway.model.partition import Partition
from peel_gateway.printing import json_option, print_json, print_table
from peel_gateway.queries.parameters import QuarantineQuery, QueryError, parse_query
from peel_gateway.service.pool import open_engine
from peel_gateway.settings.reading import config_option
from peel_gateway.storage.dead_letters import DeadLetters

__all__ = ["recount", "replay"]


@click.command()
@config_option
@json_option
def recount(config: Path | None, as_json: bool) -> None:
    """Compute every published number again from the log; exit code 1 when one differs."""
    with opened(config, compared=True) as (settings, store, snapshot):
        report = recount_store(store, snapshot, alpha=settings.screen_alpha, cache_bytes=settings.screen_memory_bytes)
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
@click.option("--dead-letters", is_flag=True, help="Process the dead letters again, in place of the quarantine.")
def replay(config: Path | None, as_json: bool, dead_letters: bool, **given: object) -> None:
    """Screen quarantined pieces again, after their cause is fixed; each at most once.

    With --dead-letters: process messages again that the gateway could not process, after the cause is fixed. A file is deleted once its
    message is stored; exit code 1 when some fail again. Either works while the gateway runs.
    """
    with opened(config, compared=True) as (settings, archive, snapshot):
        query = given_as_query(**given)
        if dead_letters and query:
            raise QueryError(f"--dead-letters cannot be combined with --{next(iter(query))}: it processes all files")
        which = parse_query(QuarantineQuery, query).which
        letters = DeadLetters(settings.dead_letters_path)
        report = ReplayReport()
        for store in archive.stores():
            partition = Partition(store.partition, store.partitions)
            engine = open_engine(settings, store, snapshot, partition)
            report += (
                replay_dead_letters(letters, engine, partition) if dead_letters else replay_store(store, engine, which)
            )
    _print_replay(report, "dead letters" if dead_letters else "pieces", as_json=as_json)
    if report.kept:
        sys.exit(Exit.FOUND)


def _print_replay(report: ReplayReport, what: str, *, as_json: bool) -> None:
    counts = {verdict.label: count for verdict, count in report.counts.items()}
    kept = {str(path): cause for path, cause in report.kept.items()}
    if as_json:
        print_json({"taken": report.pieces, "accepted": report.accepted, "verdicts": counts, "kept": kept})
        return
    click.echo(f"{report.pieces} {what} taken, {report.accepted} reports accepted")
    print_table(["verdict", "reports"], counts.items())
    for path, cause in kept.items():
        click.echo(f"failed again and kept: {path}: {cause}")
