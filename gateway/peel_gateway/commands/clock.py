# SPDX-License-Identifier: MIT
"""`peel gateway clock`: whether the gateway believes its machine's clock, and how it is made to."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from peel_gateway.commands.shared import config_option, opened
from peel_gateway.engine.clock import advance, believe, read_clock
from peel_gateway.model.moment import Moment
from peel_gateway.printing import json_option, print_json, print_table
from peel_gateway.queries.table import Table
from peel_gateway.storage.store import Store

__all__ = ["clock"]


@click.command()
@config_option
@json_option
@click.option("--believe", "believed", is_flag=True, help="The clock is right; what the gateway saw before was not.")
def clock(config: Path | None, as_json: bool, believed: bool) -> None:
    """Tell whether the gateway believes its machine's clock, or make it.

    A machine that comes up with an earlier time than it had is taken to be behind until its clock reaches that time: no
    flood is judged, nothing is deleted. Where the clock is right now, and was ahead then, that may be in years:
    --believe ends it. For another day nothing is deleted because of its age.
    """
    with opened(config) as (_, archive, _):
        rows = [_row(store.partition, _moment(store, believed)) for store in archive.stores()]
    if as_json:
        print_json({"partitions": rows})
        return
    print_table(["partition", "the gateway's time", "behind until"], [list(row.values()) for row in rows])


def _moment(store: Store, believed: bool) -> Moment:
    with store.begin() as transaction:
        last, now = transaction.clock(), read_clock()
        if not believed:
            return advance(last, now)
        moment = believe(last, now)
        transaction.set_clock(moment)
    return moment


def _row(partition: int, moment: Moment) -> Table:
    return {
        "partition": partition,
        "time": _text(moment.seen),
        "behind_until": _text(moment.behind) if moment.behind else None,
    }


def _text(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
