# SPDX-License-Identifier: MIT
"""`peel fleet provision`."""

from __future__ import annotations

from pathlib import Path

import click

from peel_gateway.printing import explaining
from peel_tools.boards.build_tools import BuildError
from peel_tools.boards.table import CABLED, find_board
from peel_tools.flashing import FlashError
from peel_tools.flashing.device_files import find_sources
from peel_tools.flashing.remote import Remote

__all__ = ["provision_device"]


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
