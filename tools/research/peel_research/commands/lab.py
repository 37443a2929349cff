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
    """Test Peel's claims on your own data: attacks, other defences, the paper's tables."""


@lab.command()
@click.option(
    "--data", "path", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="CSV file, plain or gzip-compressed. Columns are chosen and scaled automatically. By default built-in traces are used.",
)  # fmt: skip
@click.option(
    "--columns", metavar="NAME,NAME,...",
    help="Headers of the numeric columns to use, instead of the automatic choice.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False),
    help="Folder for a page to open in a browser (lab.html), its plots (SVG) and all figures (lab.json).",
)  # fmt: skip
@click.option(
    "--quick", is_flag=True, help="Use a small fleet and one seed: a minute or two, wide margins, no emulated boards."
)
@json_option
def tables(path: Path | None, columns: str | None, out: Path | None, quick: bool, as_json: bool) -> None:
    """Run all attacks, rivals and mechanisms, and print the tables. A full run takes about half an hour.

    \b
    (a) share of poisoned devices by each defence, and in the paper
    (b) attack by attack: what exposes it, how soon, remaining harm
    (c) costs of defences on a device
    (d) error with and without PEEL, mechanism by mechanism
    (e) the most harm of an omniscient insider
    (f) insiders against verified coins, on the real engine
    """
    from peel_research.lab.data import load_data  # here, because --help must not load numpy
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
    """Return the names between commas; none by default."""
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
