# SPDX-License-Identifier: MIT
"""`peel doctor`: check a gateway's surroundings."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import click

from peel_gateway.exits import Exit
from peel_gateway.fleet.folder import Fleet, FleetError
from peel_gateway.printing import json_option, print_json, print_table
from peel_gateway.settings import Settings, SettingsError
from peel_gateway.settings.reading import config_option, find_settings, pasteable
from peel_tools.doctor import (
    BAD,
    GOOD,
    Finding,
    look_at_broker,
    look_at_database,
    look_at_files,
    look_at_fleet,
    look_at_gateway,
    look_at_tools,
)

__all__ = ["doctor"]


@click.command()
@config_option
@json_option
def doctor(config: Path | None, as_json: bool) -> None:
    """Check settings, keys, file modes, database, disk, clock, broker and tools; say what to do about each problem.

    Changes nothing, and works whether the gateway runs or not. The exit code is 1 if a check is bad.
    """
    found = [replace(each, said=pasteable(each.said), remedy=pasteable(each.remedy)) for each in _examine(config)]
    if as_json:
        print_json({"well": all(each.state != BAD for each in found), "items": [asdict(each) for each in found]})
    else:
        print_table(["about", "state", "what"], [[each.about, each.state, each.said] for each in found])
        for each in found:
            if each.state != GOOD:
                click.echo(f"\n{each.about}: {each.said}\n  {each.remedy}")
    if any(each.state == BAD for each in found):
        sys.exit(Exit.FOUND)


def _examine(config: Path | None) -> Iterator[Finding]:
    try:
        settings = find_settings(config)
    except SettingsError as error:
        yield Finding("settings", BAD, str(error), "`peel gateway settings --sample` prints every setting.")
        return
    yield Finding("settings", GOOD, f"read{f' from {config}' if config else ''}")
    yield from look_at_fleet(settings)
    yield from look_at_files(settings, config)
    yield from look_at_database(settings)
    yield from look_at_gateway(settings)
    name = _fleet_name(settings)
    if name is not None:
        yield from look_at_broker(settings, name)
    yield from look_at_tools()


def _fleet_name(settings: Settings) -> str | None:
    try:
        return Fleet(settings.fleet_folder).name
    except FleetError:
        return None  # said already
