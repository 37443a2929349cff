# SPDX-License-Identifier: MIT
"""Output of commands (tables, JSON, one-line errors) and the options that they share."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import wrap

import click

from peel_gateway.exits import Exit

__all__ = [
    "Group",
    "Stopped",
    "explaining",
    "in_two_columns",
    "json_option",
    "one_line",
    "print_json",
    "print_table",
    "who_option",
]

_HELP_COLUMNS = 78
_WHO_CHARACTERS = 100

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, on the last line of stdout.")


class Group(click.Group):
    """A group that lists each command with the whole first sentence of its help; click would cut it at the end of the line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(self.commands[name])) for name in self.list_commands(ctx)])


def _first_sentence(command: click.Command) -> str:
    return command.get_short_help_str(limit=1000).rstrip(".") + "."


def in_two_columns(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and their meanings as two columns, wrapped for a help text of 80 columns."""
    table = list(rows)
    indent = " " * (max(len(name) for name, _ in table) + 2)
    lines: list[str] = []
    for name, text in table:
        lines += wrap(text, _HELP_COLUMNS, initial_indent=name.ljust(len(indent)), subsequent_indent=indent)
    return "\n".join(lines)


class Stopped(click.ClickException):
    """Ends a command with one line and an exit code."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click reads it from the instance


@contextmanager
def explaining(*expected: type[Exception]) -> Iterator[None]:
    """Turn expected errors into one line and the exit code of their class."""
    try:
        yield
    except expected as error:
        from peel_gateway.settings.reading import pasteable  # loads the core, which `--help` must not

        raise Stopped(pasteable(str(error)), getattr(error, "exit_code", Exit.USAGE)) from None


def _operator_name() -> str:
    """Return the login name, or "unknown"."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _check_who(_context: click.Context, _parameter: click.Parameter, who: str) -> str:
    """Refuse names that an audit trail cannot show: control characters could rewrite what a terminal displays."""
    if not who.strip() or len(who) > _WHO_CHARACTERS or not who.isprintable():
        raise click.BadParameter(f"{who!r}: must be 1 to {_WHO_CHARACTERS} printable characters")
    return who.strip()


who_option = click.option(
    "--who",
    default=_operator_name,
    callback=_check_who,
    help="Your name for the audit trail; default: your login name.",
)


def one_line(value: object, default: Callable[[object], str] | None = None) -> str:
    """Return a JSON document in one line: as readable text, or as ASCII if it contains unprintable characters.

    Publishers choose the characters of topics, and some that JSON does not escape move a terminal's cursor.
    """
    text = json.dumps(value, ensure_ascii=False, default=default)
    return text if text.isprintable() else json.dumps(value, default=default)


def print_json(value: object) -> None:
    """Print one JSON document."""
    click.echo(one_line(value))


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print aligned columns, numbers to the right; on a terminal with a styled header and wrapped to its width."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [bool(cells) and all(_is_number(row[i]) for row in cells) for i in range(len(header))]
    if sys.stdout.isatty():
        _print_on_terminal(header, cells, numeric)
    else:
        _print_plainly(header, cells, numeric)


def _print_on_terminal(header: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]) -> None:
    from rich.box import SIMPLE_HEAD  # imported here, because loading it takes longer than most commands
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, right in zip(header, numeric, strict=True):
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    Console(markup=False, highlight=False).print(table)


def _print_plainly(header: Sequence[str], cells: Sequence[Sequence[str]], numeric: Sequence[bool]) -> None:
    widths = [max(len(line[i]) for line in [header, *cells]) for i in range(len(header))]
    for line in [header, *cells]:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace("-", "").replace("+", "").replace("e", "").isdigit()
