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
