# SPDX-License-Identifier: MIT
"""The commands of `peel fleet` that derive keys: `add` and `bundle`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from peel_gateway.commands.fleet import explained, folder_argument, open_to_change, show_devices
from peel_gateway.fleet.bundle import draft_bundle, load_template, prepare_bundles, write_bundles
from peel_gateway.fleet.folder import Device, Fleet, FleetError, parse_device
from peel_gateway.printing import json_option
from peel_gateway.settings.reading import config_option
from peel_tools.flashing.bundles import BundleError, check_bundle

__all__ = ["add", "bundle"]

_TEMPLATE_NAME = "template.json"

template_option = click.option(
    "--template",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"JSON with what devices share (broker, Wi-Fi, sensors). Without it: {_TEMPLATE_NAME} in the folder, if any.",
)


def _template(fleet: Fleet, given: Path | None, profiles: Iterable[str]) -> dict[str, Any]:
    """Return the template for devices with these profiles, checked as a device will check it. Nothing was written before this."""
    prepare_bundles(fleet)
    default = fleet.folder / _TEMPLATE_NAME
    path = given or (default if default.exists() else None)
    if path is None:
        click.echo(
            f"no template ({default}): the bundles name a broker on 127.0.0.1 and no sensors, which no board takes. For boards write it "
            f"(docs/devices.md has a sample), then write the bundles again: `peel fleet bundle {shlex.quote(str(fleet.folder))} DEVICE`",
            err=True,
        )
        return {}
    template = load_template(path)
    known = fleet.usable_profiles(fleet.devices())
    for name in sorted(set(profiles) & known.keys()):
        try:
            check_bundle(draft_bundle(fleet, known[name], template))
        except BundleError as error:
            raise FleetError(f"{path}: with profile {name!r}: {error}") from None
    return template


@click.command()
@folder_argument
@json_option
@template_option
@config_option
@click.option("--profile", help="Their profile; not needed if the fleet has only one.")
@click.option(
    "--count", type=click.IntRange(1, 1_000_000), help="Number of devices, with the next free ids; 1 by default."
)
@click.option(
    "--id", "ids", multiple=True, help="Use this id (hexadecimal) instead of the next free one; repeat for each device."
)
@click.option("--note", default="", help="Up to 200 characters.")
@click.option("--tag", "tags", multiple=True, help="A tag such as a floor or a customer; repeat for up to 16.")
@click.option(
    "--bundles/--no-bundles",
    default=True,
    show_default=True,
    help="Write the provisioning bundles. Without one the gateway has no keys for a device.",
)
def add(
    folder: Path,
    as_json: bool,
    template: Path | None,
    config: Path | None,
    profile: str | None,
    count: int | None,
    ids: Sequence[str],
    note: str,
    tags: Sequence[str],
    bundles: bool,
) -> None:
    """Register devices and write their provisioning bundles.

    Devices of a simulated fleet get keys and numbers but no bundle, so they cannot be put onto a board.
    """
    if ids and count is not None:
        raise click.UsageError(
            f"--count {count} cannot be combined with --id: repeat --id for each device, or leave it out"
        )
    with explained():
        opened = open_to_change(folder, config)
        chosen = profile or _only_profile(opened)
        written = bundles and not opened.simulated
        shared = _template(opened, template, [chosen]) if written else {}
        numbers = [parse_device(text) for text in ids]
        added = opened.add(chosen, count=count or 1, ids=numbers, note=note, tags=tags)
        if opened.simulated:
            opened.issue([device.id for device in added])
        paths = _written(opened, added, shared) if written else []
    show_devices(added, as_json, **({"bundle": list(map(str, paths))} if written else {}))


def _written(
    opened: Fleet, devices: Sequence[Device], shared: Mapping[str, Any], first_number: int | None = None
) -> list[Path]:
    """Write bundles, with a progress bar on a terminal."""
    if not sys.stderr.isatty():
        return write_bundles(opened, devices, shared, first_number=first_number)
    with click.progressbar(length=len(devices), label="writing bundles", file=sys.stderr) as bar:
        return write_bundles(opened, devices, shared, first_number=first_number, on_written=bar.update)


def _only_profile(opened: Fleet) -> str:
    names = list(opened.profiles())
    if len(names) != 1:
        raise FleetError(f"--profile: name one of: {', '.join(names) or 'none; the fleet has no profile yet'}")
    return names[0]


@click.command()
@folder_argument
@click.argument("device", nargs=-1, required=True)
@template_option
@config_option
@json_option
@click.option(
    "--first-number",
    type=click.IntRange(1, 2**48 - 1),
    help="First report number; by default above every number of the former bundle.",
)
def bundle(
    folder: Path,
    device: Sequence[str],
    template: Path | None,
    config: Path | None,
    as_json: bool,
    first_number: int | None,
) -> None:
    """Write new bundles for devices whose boards were erased, replaced or stolen. No report number is used twice.

    The new bundle has new keys and new numbers, and the gateway accepts these numbers only with these keys. Put the bundle onto the board
    within a week. After that the gateway refuses reports made with the old bundle, also from a lost board.
    """
    with explained():
        opened = open_to_change(folder, config)
        chosen = [opened.device(parse_device(text)) for text in device]
        if opened.simulated:
            raise FleetError(
                f"{folder}: is a simulated fleet; its devices have no bundles. For boards make a fleet without --simulated: "
                "`peel fleet init FOLDER --name NAME`"
            )
        shared = _template(opened, template, [each.profile for each in chosen])
        paths = _written(opened, chosen, shared, first_number)
    show_devices(chosen, as_json, bundle=list(map(str, paths)))
