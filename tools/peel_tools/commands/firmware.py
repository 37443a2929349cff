# SPDX-License-Identifier: MIT
"""Firmware and boards: `peel firmware` builds and flashes, `peel fleet provision` puts the application onto a board."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import click

from peel_gateway.printing import Group, Stopped, explaining
from peel_tools.boards.build_tools import BuildError
from peel_tools.boards.cache import REPOSITORY, require_checkout
from peel_tools.boards.firmware import RECIPES, build_firmware
from peel_tools.boards.natmod import publish
from peel_tools.boards.table import ARCHITECTURES, BOARDS, CABLED, find_board
from peel_tools.flashing import FlashError
from peel_tools.flashing.device_files import find_sources
from peel_tools.flashing.image import flash_esp32, flash_pico
from peel_tools.flashing.remote import Remote

__all__ = ["firmware", "provision_device"]

_FLASHABLE = [board.name for board in BOARDS.values() if board.boot_drives or board.serial_loaders]
_CHIPS = [loader.chip for board in BOARDS.values() for loader in board.serial_loaders]
_Product = TypeVar("_Product")


@click.group(cls=Group)
def firmware() -> None:
    """Build and flash firmware and native modules."""


def _each(chosen: str, names: Iterable[str], build: Callable[[str], _Product]) -> Iterable[tuple[str, _Product, float]]:
    for name in names if chosen == "all" else [chosen]:
        started = time.monotonic()
        try:
            require_checkout()
            product = build(name)
        except BuildError as error:
            raise Stopped(f"{name}: {error}", error.exit_code) from error
        yield name, product, time.monotonic() - started


@firmware.command()
@click.argument("board", type=click.Choice([*RECIPES, "all"]))
def build(board: str) -> None:
    """Build MicroPython with the core and the application in it, for BOARD.

    Unchanged parts are not rebuilt. Set MICROPYTHON_DIR to use a MicroPython 1.25.0 source tree instead of Debian's, and PEEL_CACHE to
    build in another folder than ~/.cache/peel.
    """
    for name, image, seconds in _each(board, RECIPES, build_firmware):
        main = image.uf2 if image.uf2.exists() else image.elf
        click.echo(f"{name:>9}  {main}  ({main.stat().st_size} bytes, {seconds:.0f} s)")


@firmware.command()
@click.argument("arch", type=click.Choice([*ARCHITECTURES, "all"]))
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=REPOSITORY / "build" / "mip",
    show_default="build/mip",
    help="Folder for the modules, one subfolder per architecture.",
)
def natmod(arch: str, out: Path) -> None:
    """Build the native module for stock MicroPython on ARCH, in a folder from which mip and mpremote can install."""
    for name, folder, seconds in _each(arch, ARCHITECTURES, lambda one: publish(one, out)):
        size = (folder / "peelcore.mpy").stat().st_size
        click.echo(
            f"{name:>9}  {folder / 'package.json'}  ({size} bytes, {seconds:.0f} s; {ARCHITECTURES[name].processors})"
        )


@firmware.command()
@click.argument("image", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--board", required=True, type=click.Choice(_FLASHABLE), help="Kind of board.")
@click.option("--port", help="Serial port of an ESP32.")
@click.option(
    "--chip",
    type=click.Choice(_CHIPS),
    help="Kind of ESP32.",
    show_default="esp32",
)
@click.option(
    "--volume",
    type=click.Path(path_type=Path),
    help="Folder where a Pico's boot drive is mounted; by default the usual ones are searched.",
)
@click.option("--dry-run", is_flag=True, help="Only check the image, and print what would be done.")
def flash(image: Path, board: str, port: str | None, chip: str | None, volume: Path | None, dry_run: bool) -> None:
    """Flash IMAGE, a MicroPython for the board: a .uf2 file to a Pico in BOOTSEL mode, a .bin file to an ESP32."""
    with explaining(FlashError):
        if loaders := {loader.chip: loader for loader in find_board(board).serial_loaders}:
            if port is None:
                raise FlashError("an ESP32 is flashed over its serial port. Name it with --port")
            chosen = chip or next(iter(loaders))
            if chosen not in loaders:
                raise FlashError(f"--chip {chosen}: board {board} has another chip. Use one of: {', '.join(loaders)}")
            flash_esp32(image, port, loaders[chosen], click.echo, dry_run=dry_run)
        else:
            user = getpass.getuser()
            usual = [Path("/media") / user, Path("/run/media") / user, Path("/Volumes"), Path("/media")]
            flash_pico(image, [volume] if volume else usual, click.echo, dry_run=dry_run)


@click.command("provision")
@click.argument("device")
@click.option(
    "--fleet",
    "folder",
    default="fleet",
    show_default=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The fleet folder.",
)
@click.option("--port", help="Serial port of the board; by default (auto) the first one.")
@click.option("--board", required=True, type=click.Choice(CABLED), help="Kind of board.")
@click.option(
    "--ca", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="CA certificate (DER) for TLS."
)
@click.option(
    "--module",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A peelcore.mpy to use instead of the one that comes with Peel.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Python module of yours for the board, such as a driver for a sensor of kind callable; repeat for each.",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be done. With --port the board is read, too.")
def provision_device(
    device: str,
    folder: Path,
    port: str | None,
    board: str,
    ca: Path | None,
    module: Path | None,
    files: tuple[Path, ...],
    dry_run: bool,
) -> None:
    """Put the application and DEVICE's bundle onto a board that runs MicroPython; verify, test and start it."""
    # Imported here because they load numpy, which --help does not need.
    from peel_gateway.fleet.device import FleetError, device_label, parse_device
    from peel_tools.flashing.provision import preview, provision

    with explaining(FlashError, BuildError, FleetError):
        bundle = folder / "bundles" / f"{device_label(parse_device(device))}.json"
        sources = find_sources(module)
        if dry_run and port is None:
            preview(find_board(board), bundle, sources, click.echo, ca=ca, files=files)
        else:
            remote = Remote(port or "auto")
            provision(remote, find_board(board), bundle, sources, click.echo, ca=ca, files=files, dry_run=dry_run)
