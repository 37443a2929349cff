# SPDX-License-Identifier: MIT
"""Tables of the code's registries as Markdown: commands, exit codes, HTTP routes, boards, verdicts and device states."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import click
from starlette.routing import Route

from peel_gateway.exits import Exit
from peel_gateway.metrics import Metrics
from peel_gateway.model.standing import Standing
from peel_gateway.model.verdict import LAYERS, Blame, Verdict
from peel_gateway.queries.exposed import Cases
from peel_gateway.queries.responses import Health, Summary
from peel_gateway.queries.views import Views
from peel_gateway.web.app import build_app
from peel_gateway.web.openapi import route_text
from peel_hil.duts import ALL_DUTS
from peel_tools.boards.table import ARCHITECTURES, BOARDS, Board
from peel_tools.cli import main

__all__ = [
    "architecture_table",
    "board_table",
    "command_table",
    "endpoint_table",
    "exit_table",
    "state_table",
    "verdict_table",
]


def command_table() -> str:
    """Return one row per command: its name and the first paragraph of its help."""
    return _table(
        ["command", "what"],
        ([f"`{path}`", _cell(_first_paragraph(command))] for path, command in _commands("peel", main)),
    )


def exit_table() -> str:
    """Return one row per exit code."""
    return _table(["exit code", "meaning"], ([f"{int(code)}", code.meaning] for code in Exit))


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


def endpoint_table() -> str:
    """Return path, meaning and parameters of each route."""
    rows = []
    for route in _routes():
        what, parameters = route_text(route)
        rows.append([f"`{route.path}`", what.removesuffix("."), parameters])
    return _table(["path", "what", "parameters"], rows)


def _routes() -> list[Route]:
    """Return the routes of an application without a store, which serves no request."""
    app = build_app(
        cast(Views, None),
        cast(Cases, None),
        Metrics(),
        summary=lambda: cast(Summary, {}),
        alerts=list,
        health=lambda: cast(Health, {}),
        generation=int,
        stopping=threading.Event(),
        token=None,
        streams=1,
    )
    return [route for route in app.routes if isinstance(route, Route) and route.include_in_schema]


_BLAMED = {Blame.NOBODY: "", Blame.NETWORK: "nobody", Blame.DEVICE: "the device", Blame.EARLIER: "the device, earlier"}


def board_table() -> str:
    """Return one row per board: description, how to flash MicroPython, and its native modules."""
    return _table(
        ["board", "what", "flashed by", "native module"],
        (
            [
                f"`{board.name}`",
                board.title,
                _flashing(board),
                ", ".join(dict.fromkeys(f"`{chip.architecture}` ({chip.name})" for chip in board.chips)),
            ]
            for board in BOARDS.values()
        ),
    )


def _flashing(board: Board) -> str:
    if board.boot_drives:
        return "a UF2 file, copied to its boot drive"
    if board.in_place:
        return "`peel device run`"
    return "esptool, over its serial port" if board.serial_loaders else "the emulator"


def architecture_table() -> str:
    """Return one row per kind of native code: its processors, and where its module has run."""
    rows = []
    for row in ARCHITECTURES.values():
        run = dict.fromkeys(dut.processor for dut in ALL_DUTS.values() if row.name in dut.native_architectures)
        rows.append([f"`{row.name}`", row.processors, ", ".join(run)])
    return _table(["architecture", "for", "emulated on"], rows)


def verdict_table() -> str:
    """Return one row per verdict in the order of the layers: meaning, whether the report is in the log, and the blame."""
    rows = [
        [
            layer.label if layer else "none",
            f"`{verdict.label}`",
            verdict.sentence,
            "yes" if verdict.logged else "no",
            _BLAMED[verdict.blame],
        ]
        for layer in (*LAYERS, None)
        for verdict in Verdict
        if verdict.layer is layer
    ]
    return _table(["layer", "verdict", "meaning", "in the log", "blames"], rows)


def state_table() -> str:
    """Return one row per state of a device, in the order of the checks."""
    return _table(["state", "meaning"], ([f"`{standing.label}`", standing.sentence] for standing in Standing))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (f"| {' | '.join(line)} |\n" for line in (header, *rows))
    return next(lines) + "|---" * len(header) + "|\n" + "".join(lines)
