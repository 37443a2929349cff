# SPDX-License-Identifier: MIT
"""The commands of `peel` and their exit codes as Markdown, from click's description."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from peel_gateway.exits import Exit
from peel_tools.cli import main

__all__ = ["command_table", "exit_table"]


def command_table() -> str:
    """Return one row per command: its name and the first paragraph of its help."""
    rows = [f"| `{path}` | {_cell(_first_paragraph(command))} |" for path, command in _commands("peel", main)]
    return "\n".join(["| command | what |", "|---|---|", *rows]) + "\n"


def exit_table() -> str:
    """Return one row per exit code."""
    rows = [f"| {int(code)} | {code.meaning} |" for code in Exit]
    return "\n".join(["| exit code | meaning |", "|---|---|", *rows]) + "\n"


def _commands(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands below a group, depth first, without the groups."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(click.Context(command)):
        child = command.get_command(click.Context(command), name)
        assert child is not None, f"{name} is listed and cannot be loaded"
        yield from _commands(f"{path} {name}", child)


def _first_paragraph(command: click.Command) -> str:
    assert command.help, f"{command.name} has no help"
    return inspect.cleandoc(command.help).split("\n\n")[0]


def _cell(text: str) -> str:
    """Return text for a table cell."""
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")
