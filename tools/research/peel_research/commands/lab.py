# SPDX-License-Identifier: MIT
"""``peel lab``: the attack lab."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from peel_gateway.printing import Group, explaining, json_option, print_json, print_table
from peel_tools.profiles.dataset import DatasetError


@click.group(cls=Group)
def lab() -> None:
    """Judge the promise on your own data: attacks, other defences, the paper's tables."""


@lab.command()
@click.option(
    "--data", "path", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A CSV file, as it is or packed by gzip; columns are chosen and scaled for you. Built-in traces without it.",
)  # fmt: skip
@click.option(
    "--columns", metavar="NAME,NAME,...",
    help="Numeric columns to use, by header, whatever the automatic choice says of them.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False),
    help="A folder for a page to open in a browser (lab.html), its plots (SVG) and all figures (lab.json).",
)  # fmt: skip
@click.option(
    "--quick", is_flag=True, help="A small fleet and one seed: a minute or less, wide margins, no emulated boards."
)
@json_option
def tables(path: Path | None, columns: str | None, out: Path | None, quick: bool, as_json: bool) -> None:
    """Run all attacks, rivals and mechanisms, and print the tables. A full run takes about ten minutes.

    \b
    (a) share of poisoned devices as each defence estimates it, and the paper
    (b) attack by attack: what exposes it, how soon, what harm is left
    (c) what defences cost a device
    (d) error with and without PEEL, mechanism by mechanism
    (e) the most that an insider does who knows everything
    """
    from peel_research.lab.data import load_data  # here, because numpy takes longer to load than --help takes
    from peel_research.lab.tables import Lab

    with explaining(DatasetError):
        planned = Lab(load_data(path, _names(columns)), quick=quick)
    with click.progressbar(
        length=planned.steps, label="attack lab", file=sys.stderr, item_show_func=lambda what: what or ""
    ) as bar:

        def progress(what: str) -> None:
            bar.update(1, what.replace("_", " "))

        figures = planned.tables(progress)
    figures["run"]["command"] = _command(path, columns, quick)
    if out is not None:
        from peel_research.lab.page import write_page

        click.echo(f"open {write_page(figures, out)} in a browser", err=True)
    if as_json:
        print_json(figures)
    else:
        _print(figures)


def _names(columns: str | None) -> list[str]:
    """As many as there are between commas; none where nothing was said."""
    return [name.strip() for name in (columns or "").split(",") if name.strip()]


def _command(path: Path | None, columns: str | None, quick: bool) -> str:
    """Return the command line that repeats these figures."""
    data = ["--data", path.name] if path else []
    chosen = ["--columns", columns] if columns else []
    return shlex.join(["peel", "lab", "tables", *data, *chosen, *(["--quick"] if quick else []), "--json"])


def _print(figures: dict[str, Any]) -> None:
    from peel_research.lab.words import sections

    for section in sections(figures):
        click.echo(f"\n{section.title}\n{section.text}\n")
        print_table(section.header, section.rows)
