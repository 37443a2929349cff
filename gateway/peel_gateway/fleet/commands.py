# SPDX-License-Identifier: MIT
"""`peel fleet`: make a fleet, register devices, write their bundles, revoke them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from peel_gateway.exits import Exit
from peel_gateway.fleet.bundle import load_template, write_bundles
from peel_gateway.fleet.registry import Device, Fleet, FleetError, parse_device
from peel_gateway.printing import json_option, print_json, print_table

__all__ = ["fleet"]

_TEMPLATE_NAME = "template.json"

folder_argument = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
template_option = click.option(
    "--template",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"JSON with what devices share (broker, Wi-Fi, sensors). Without it: {_TEMPLATE_NAME} in the folder, if any.",
)


class _Failure(click.ClickException):
    exit_code = int(Exit.FLEET)


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except FleetError as error:
        raise _Failure(str(error)) from None


def _template(fleet: Fleet, given: Path | None) -> dict[str, Any]:
    default = fleet.folder / _TEMPLATE_NAME
    path = given or (default if default.exists() else None)
    if path is None:
        click.echo(f"no template ({default}): the bundles name a broker on 127.0.0.1 and no sensors", err=True)
        return {}
    return load_template(path)


def _show(devices: Sequence[Device], as_json: bool, bundles: Sequence[Path] = ()) -> None:
    paths: list[str | None] = [str(path) for path in bundles] or [None for _ in devices]
    rows = [
        {
            "device": device.label,
            "profile": device.profile,
            "state": device.state,
            "created": device.created,
            "note": device.note,
            **({"bundle": path} if path else {}),
        }
        for device, path in zip(devices, paths, strict=True)
    ]
    if as_json:
        print_json({"items": rows})
        return
    header = ["device", "profile", "state", "created", "note", *(["bundle"] if bundles else [])]
    print_table(header, [[row[key] for key in header] for row in rows])


@click.group()
def fleet() -> None:
    """Register, provision and revoke devices."""


@fleet.command()
@folder_argument
@click.option("--name", required=True, help="Part of every topic: a-z, 0-9 and '-'.")
@click.option("--profile", "profiles", multiple=True, type=click.Path(path_type=Path), help="Profile file to copy in.")
def init(folder: Path, name: str, profiles: Sequence[Path]) -> None:
    """Make a fleet folder with a new master key. Back the key up: without it the devices are lost."""
    with _explained():
        Fleet.create(folder, name, profiles)
    click.echo(f"{folder}: fleet {name}; keep {folder / 'master.key'} private and backed up")


@fleet.command()
@folder_argument
@json_option
@template_option
@click.option("--profile", help="What the devices report; may be left out when the fleet has one profile.")
@click.option("--count", type=click.IntRange(1, 1_000_000), default=1, show_default=True, help="How many.")
@click.option("--id", "ids", multiple=True, help="Give this id (hexadecimal) instead of the next free one.")
@click.option("--note", default="", help="Up to 200 characters.")
@click.option("--bundles/--no-bundles", default=True, show_default=True, help="Write the provisioning bundles.")
def add(
    folder: Path,
    as_json: bool,
    template: Path | None,
    profile: str | None,
    count: int,
    ids: Sequence[str],
    note: str,
    bundles: bool,
) -> None:
    """Register devices and write their provisioning bundles."""
    with _explained():
        opened = Fleet(folder)
        shared = _template(opened, template) if bundles else {}
        chosen = profile or _only_profile(opened)
        added = opened.add(chosen, count=count, ids=[parse_device(text) for text in ids], note=note)
        paths = write_bundles(opened, added, shared) if bundles else []
    _show(added, as_json, paths)


def _only_profile(opened: Fleet) -> str:
    names = list(opened.profiles())
    if len(names) != 1:
        raise FleetError(f"--profile: name one of: {', '.join(names) or 'none; the fleet has no profile yet'}")
    return names[0]


@fleet.command("list")
@folder_argument
@json_option
def list_devices(folder: Path, as_json: bool) -> None:
    """List the devices."""
    with _explained():
        devices = Fleet(folder).devices()
    _show(devices, as_json)


@fleet.command()
@folder_argument
@click.argument("device", nargs=-1, required=True)
@json_option
def revoke(folder: Path, device: Sequence[str], as_json: bool) -> None:
    """Refuse devices' reports from now on; a running gateway follows within seconds."""
    with _explained():
        revoked = Fleet(folder).revoke([parse_device(text) for text in device])
    _show(revoked, as_json)


@fleet.command()
@folder_argument
@click.argument("device")
@click.argument("text")
@json_option
def note(folder: Path, device: str, text: str, as_json: bool) -> None:
    """Set a device's note."""
    with _explained():
        changed = Fleet(folder).annotate(parse_device(device), text)
    _show([changed], as_json)


@fleet.command()
@folder_argument
@click.argument("device", nargs=-1, required=True)
@template_option
@json_option
@click.option(
    "--first-number",
    type=click.IntRange(1, 2**48 - 1),
    help="First report number. Without it: above every number that the former bundle allowed, which is always right.",
)
def bundle(folder: Path, device: Sequence[str], template: Path | None, as_json: bool, first_number: int | None) -> None:
    """Write devices' bundles again, for boards that were erased or replaced: no number is used twice.

    Erase the old board first, or take it off the power: what it uses afterwards the new bundle does not know of.
    """
    with _explained():
        opened = Fleet(folder)
        chosen = [opened.device(parse_device(text)) for text in device]
        paths = write_bundles(opened, chosen, _template(opened, template), first_number=first_number)
    _show(chosen, as_json, paths)
