# SPDX-License-Identifier: MIT
"""`peel firmware build` and `peel firmware natmod`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import click

from peel_gateway.printing import Stopped
from peel_tools.boards.cache import REPOSITORY, require_checkout
from peel_tools.boards.errors import BuildError
from peel_tools.boards.firmware import RECIPES, build_firmware
from peel_tools.boards.natmod import publish
from peel_tools.boards.table import ARCHITECTURES

__all__ = ["build", "natmod"]

_Product = TypeVar("_Product")


def _each(chosen: str, names: Iterable[str], build: Callable[[str], _Product]) -> Iterable[tuple[str, _Product, float]]:
    for name in names if chosen == "all" else [chosen]:
        started = time.monotonic()
        try:
            require_checkout()
            product = build(name)
        except BuildError as error:
            raise Stopped(f"{name}: {error}", error.exit_code) from error
        yield name, product, time.monotonic() - started


@click.command()
@click.argument("board", type=click.Choice([*RECIPES, "all"]))
def build(board: str) -> None:
    """Build MicroPython with the core and the application in it, for BOARD.

    What has not changed is not built again. MICROPYTHON_DIR names a MicroPython 1.25.0 source tree to use instead of Debian's;
    PEEL_CACHE a folder for the builds instead of ~/.cache/peel.
    """
    for name, image, seconds in _each(board, RECIPES, build_firmware):
        main = image.uf2 if image.uf2.exists() else image.elf
        click.echo(f"{name:>9}  {main}  ({main.stat().st_size} bytes, {seconds:.0f} s)")


@click.command()
@click.argument("arch", type=click.Choice([*ARCHITECTURES, "all"]))
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=REPOSITORY / "build" / "mip",
    show_default="build/mip",
    help="Folder to write to; one folder per architecture.",
)
def natmod(arch: str, out: Path) -> None:
    """Build the native module for stock MicroPython on ARCH, as a folder that mip and mpremote can install from."""
    for name, folder, seconds in _each(arch, ARCHITECTURES, lambda one: publish(one, out)):
        size = (folder / "peelcore.mpy").stat().st_size
        click.echo(
            f"{name:>9}  {folder / 'package.json'}  ({size} bytes, {seconds:.0f} s; {ARCHITECTURES[name].processors})"
        )
