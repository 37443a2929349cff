# SPDX-License-Identifier: MIT
"""The `peel` command and its subcommands as Markdown, from click's description."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from peel_gateway.exits import Exit
from peel_tools.cli import main

__all__ = ["command_reference", "command_table", "exit_table"]

_COLUMNS = 120


def command_reference() -> str:
    """Return every command with its arguments, options and help."""
    return "\n".join(_section(path, command) for path, command in _commands("peel", main))


def command_table(group: str) -> str:
    """Return one row per subcommand of a group such as `gateway`."""
    rows = [
        f"| `{path}` | {_cell(_paragraphs(command)[0])} |"
        for path, command in _commands(f"peel {group}", _child(main, group))
    ]
    return "\n".join(["| command | what |", "|---|---|", *rows]) + "\n"


def exit_table() -> str:
    """Return one row per exit code."""
    return (
        "\n".join(["| exit code | meaning |", "|---|---|", *(f"| {int(code)} | {code.meaning} |" for code in Exit)])
        + "\n"
    )


def _commands(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands below a group, depth first, without the groups."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in command.list_commands(click.Context(command)):
        yield from _commands(f"{path} {name}", _child(command, name))


def _child(group: click.Group, name: str) -> click.Command:
    command = group.get_command(click.Context(group), name)
    assert command is not None, f"{name} is listed and cannot be loaded"
    return command


def _section(path: str, command: click.Command) -> str:
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    usage = " ".join([path, *(["[OPTIONS]"] if options else []), *map(_argument, arguments)])
    lines = [f"## {path}", "", f"    {usage}", "", _prose(command)]
    lines += [line for argument in arguments for line in _choices(argument)]
    if options:
        lines += ["", "| option | default | what |", "|---|---|---|", *map(_option, options)]
    return "\n".join(lines) + "\n"


def _argument(argument: click.Argument) -> str:
    name = str(argument.name).upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _choices(argument: click.Argument) -> list[str]:
    if not isinstance(argument.type, click.Choice):
        return []
    return ["", *_wrapped(f"{_argument(argument)} is one of {_listed(argument.type)}.")]


def _option(option: click.Option) -> str:
    assert option.help, f"{option.name} has no help"
    names = ", ".join(f"`{name}`" for name in [*sorted(option.opts, key=len), *option.secondary_opts])
    value = "" if option.is_flag or option.count else f" {_value(option)}"
    return f"| {names}{value} | {_default(option)} | {_cell(option.help)} |"


def _value(option: click.Option) -> str:
    if option.metavar:
        return f"`{option.metavar}`"
    if isinstance(option.type, click.Choice):
        return _listed(option.type)
    kind: dict[str, Any] = dict(option.type.to_info_dict())
    words = [str(kind["name"]).split()[0]]
    if kind.get("min") is not None:
        words.append(f"{'above' if kind['min_open'] else 'from'} {kind['min']}")
    if kind.get("max") is not None:
        words.append(f"{'below' if kind['max_open'] else 'to'} {kind['max']}")
    return " ".join(words)


def _listed(choice: click.Choice[Any]) -> str:
    return ", ".join(f"`{each}`" for each in choice.choices)


def _default(option: click.Option) -> str:
    if option.required:
        return "(required)"
    if isinstance(option.show_default, str):
        return f"`{option.show_default}`"
    default = option.to_info_dict()["default"]
    if default in (None, False, "", (), []) or option.is_flag or callable(default):
        return ""
    assert not (isinstance(default, Path) and default.is_absolute()), f"{option.name}: say what it is in show_default"
    return f"`{default}`"


def _prose(command: click.Command) -> str:
    """Help text in paragraphs; one that click is told to leave alone (a line with \\b) becomes an indented block."""
    made = []
    for paragraph in _paragraphs(command):
        if paragraph.startswith("\b"):
            made.append("\n".join(f"    {line.strip()}" for line in paragraph.splitlines()[1:]))
        else:
            made.append("\n".join(_wrapped(paragraph)))
    return "\n\n".join(made)


def _paragraphs(command: click.Command) -> list[str]:
    assert command.help, f"{command.name} has no help"
    return inspect.cleandoc(command.help).split("\n\n")


def _wrapped(text: str) -> list[str]:
    return wrap(" ".join(text.split()), _COLUMNS, break_on_hyphens=False)


def _cell(text: str) -> str:
    """Return text for a table cell."""
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")
