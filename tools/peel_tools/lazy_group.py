# SPDX-License-Identifier: MIT
"""A click group that imports a command when it is used, so that each command loads only what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from peel_gateway.exits import Exit
from peel_gateway.printing import Stopped

__all__ = ["LazyGroup"]


class LazyGroup(click.Group):
    """A group defined by a table.

    Parameters
    ----------
    table : mapping
        Subcommand to its place ("module:attribute") and one line of help, with which its own help begins.
    """

    def __init__(self, *arguments: Any, table: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, _, attribute = self.table[cmd_name][0].partition(":")
        try:
            command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name != "peel_research":
                raise
            raise Stopped(
                f"peel {cmd_name}: the research tools are not installed. Run: pip install 'peel-telemetry[research]'",
                Exit.MISSING,
            ) from None
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])
