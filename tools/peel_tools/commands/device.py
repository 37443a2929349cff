# SPDX-License-Identifier: MIT
"""`peel device`: run the firmware on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import click

from peel_gateway.printing import Group, explaining
from peel_tools.boards.build_tools import BuildError
from peel_tools.device.flash import Changes, Flash
from peel_tools.device.process import launch_command
from peel_tools.flashing import FlashError
from peel_tools.flashing.bundles import why_missing
from peel_tools.flashing.device_files import find_sources
from peel_tools.simulation.publisher import BrokerAddress, PublisherError

__all__ = ["device"]


@click.group(cls=Group)
def device() -> None:
    """Run a device's firmware on this machine."""


@device.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--flash",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the device's flash; by default one beside the bundle.",
)
@click.option(
    "--broker", help="Broker to use instead of the bundle's: host:port, mqtt://host:port or mqtts://host:port."
)
@click.option(
    "--ca", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="CA certificate for TLS, PEM or DER."
)
@click.option(
    "--interval", "interval_s", type=click.FloatRange(0), help="Seconds between reports, instead of the bundle's."
)
@click.option("--simulate", type=click.IntRange(0), help="Seed of simulated readings that replace all sensors.")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Python module of yours for the flash, such as one that a sensor of kind callable needs; repeat for each.",
)
@click.option(
    "--micropython", is_flag=True, help="Run under MicroPython's unix port (built if needed) instead of CPython."
)
@click.option(
    "--verbose",
    is_flag=True,
    help="Print readings, reports and what waits for the quota. Readings are private: on this console only.",
)
def run(
    target: Path,
    folder: Path | None,
    broker: str | None,
    ca: Path | None,
    interval_s: float | None,
    simulate: int | None,
    files: tuple[Path, ...],
    micropython: bool,
    verbose: bool,
) -> None:
    """Run the application of the boards on this machine, with a folder as its flash.

    TARGET is a bundle (fleet/bundles/00000001.json), or a flash folder of an earlier run. The process is the device: SIGKILL is a power
    cut, and the next run continues from the folder. A bundle belongs to one flash folder. For another one make a new bundle with
    `peel fleet bundle`, as for a board that was erased.
    """
    with explaining(BuildError, FlashError, PublisherError):
        address = BrokerAddress.parse(broker) if broker else None
        changes = Changes(broker=address, ca=ca, interval_s=interval_s, simulate=simulate)
        flash = _prepared(target, folder, changes, files)
        command = launch_command(micropython=micropython, verbose=verbose)
    os.chdir(flash.folder)
    os.execv(command[0], command)  # noqa: S606 - so that this process is the device


def _prepared(target: Path, folder: Path | None, changes: Changes, files: tuple[Path, ...]) -> Flash:
    if not target.exists():
        raise FlashError(why_missing(target))
    sources = find_sources()
    if target.is_dir():
        if folder is not None and folder.resolve() != target.resolve():
            raise FlashError(f"{target} is a flash folder already. Leave out --flash, or name a bundle")
        flash = Flash(target.resolve())
        flash.install(flash.bundle, sources, changes, files)  # other settings, newer files
        return flash
    flash = Flash((folder or target.with_suffix(".flash")).resolve())
    flash.provision(target, sources, changes, files)
    return flash
