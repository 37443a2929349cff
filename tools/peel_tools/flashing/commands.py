# SPDX-License-Identifier: MIT
"""`peel fleet provision` and `peel firmware flash`."""

from __future__ import annotations

import getpass
from pathlib import Path

import click

from peel_gateway.printing import explaining
from peel_tools.boards.errors import BuildError
from peel_tools.boards.table import BOARDS, CABLED, find_board
from peel_tools.flashing.errors import FlashError
from peel_tools.flashing.image import flash_esp32, flash_pico
from peel_tools.flashing.remote import Remote
from peel_tools.flashing.sources import find_sources

__all__ = ["flash", "provision_device"]

_FLASHABLE = [board.name for board in BOARDS.values() if board.boot_drives or board.serial_loaders]
_CHIPS = [loader.chip for board in BOARDS.values() for loader in board.serial_loaders]


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
@click.option("--port", help="Serial port of the board; by default, and with auto, the first one.")
@click.option("--board", required=True, type=click.Choice(CABLED), help="What it is.")
@click.option(
    "--ca", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="CA certificate (DER) for TLS."
)
@click.option(
    "--module",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A peelcore.mpy to use instead of Peel's own.",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A module of your own for the board, such as the driver of a sensor (kind callable); repeat for each.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done; looks at a board if --port names one.")
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
    """Put the application and DEVICE's bundle onto a board that runs MicroPython, verify, test and start it."""
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


@click.command("flash")
@click.argument("image", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--board", required=True, type=click.Choice(_FLASHABLE), help="What it is.")
@click.option("--port", help="Serial port of an ESP32.")
@click.option(
    "--chip",
    type=click.Choice(_CHIPS),
    help="Which ESP32.",
    show_default="esp32",
)
@click.option("--volume", type=click.Path(path_type=Path), help="Where the boot drive of a Pico is mounted.")
@click.option("--dry-run", is_flag=True, help="Only check, and say what would be done.")
def flash(image: Path, board: str, port: str | None, chip: str | None, volume: Path | None, dry_run: bool) -> None:
    """Write IMAGE, a MicroPython for the board, to it: a .uf2 to a Pico held in BOOTSEL mode, a .bin to an ESP32."""
    with explaining(FlashError):
        if loaders := {loader.chip: loader for loader in find_board(board).serial_loaders}:
            if port is None:
                raise FlashError("an ESP32 is flashed over its serial port: name it with --port")
            chosen = chip or next(iter(loaders))
            if chosen not in loaders:
                raise FlashError(f"{chosen} is on no {board}: it may have {', '.join(loaders)}")
            flash_esp32(image, port, loaders[chosen], click.echo, dry_run=dry_run)
        else:
            user = getpass.getuser()
            usual = [Path("/media") / user, Path("/run/media") / user, Path("/Volumes"), Path("/media")]
            flash_pico(image, [volume] if volume else usual, click.echo, dry_run=dry_run)
