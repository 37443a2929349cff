# SPDX-License-Identifier: MIT
"""Tables for people, JSON for programs, errors in one line; and the options that commands share."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import click

from peel_gateway.exits import Exit

__all__ = ["Stopped", "explaining", "json_option", "print_json", "print_table", "who_option"]

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, on the last line of stdout.")


class Stopped(click.ClickException):
    """Ends a command with one line and an exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click reads it from the instance


@contextmanager
def explaining(*expected: type[Exception]) -> Iterator[None]:
    """Turn expected errors into one line and the exit code that their class names."""
    try:
        yield
    except expected as error:
        raise Stopped(str(error), getattr(error, "exit_code", Exit.USAGE)) from None


def _operator_name() -> str:
    """Who types, as far as the system knows."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


who_option = click.option("--who", default=_operator_name, help="Who does it; your login name without it.")


def print_json(value: object) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns; numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    numeric = [bool(cells) and all(_is_number(row[i]) for row in cells) for i in range(len(header))]
    for line in [list(header), *cells]:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace("-", "").replace("+", "").replace("e", "").isdigit()
