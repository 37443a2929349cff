# SPDX-License-Identifier: MIT
"""``peel firmware``: firmware images and native modules."""

from __future__ import annotations

import click

from peel_tools.lazy_group import LazyGroup

__all__ = ["firmware"]

_COMMANDS = {
    "build": (
        "peel_tools.boards.commands:build",
        "Build MicroPython with the core and the application in it, for BOARD.",
    ),
    "natmod": (
        "peel_tools.boards.commands:natmod",
        "Build the native module for stock MicroPython on ARCH, as a folder that mip and mpremote can install from.",
    ),
    "flash": ("peel_tools.flashing.commands:flash", "Write IMAGE, a MicroPython for the board, to it"),
}


@click.group(cls=LazyGroup, table=_COMMANDS)
def firmware() -> None:
    """Build and flash firmware and native modules."""
