# SPDX-License-Identifier: MIT
"""`peel gateway export`: what the store holds, as a file for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from peel_gateway.commands.shared import config_option, given_as_query, opened
from peel_gateway.printing import explaining, json_option, print_json
from peel_gateway.queries.export import TABLES, ExportError, Source, Span
from peel_gateway.queries.export import export as write_export
from peel_gateway.queries.parameters import span_query
from peel_gateway.queries.views import open_views

__all__ = ["export"]


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@config_option
@json_option
@click.option("--table", type=click.Choice(list(TABLES)), default="reports", show_default=True, help="What.")
@click.option("--since", help="Unix seconds or ISO 8601; without it from the beginning.")
@click.option("--until", help="Unix seconds or ISO 8601; without it up to now.")
def export(file: Path, config: Path | None, as_json: bool, table: str, **given: object) -> None:
    """Write reports, estimates per time bucket, or exposures into FILE, whose name ends with .csv or .parquet.

    Whether the gateway runs or not. Parquet needs the extra: pip install 'peel-telemetry[parquet]'.
    """
    with opened(config) as (settings, store, snapshot), explaining(ExportError):
        source = Source(store, snapshot, open_views(settings, store, lambda: snapshot))
        rows = write_export(source, table, file, Span(**span_query(given_as_query(**given))))
    if as_json:
        print_json({"file": str(file), "table": table, "rows": rows})
    else:
        click.echo(f"{file}: {rows} rows")
