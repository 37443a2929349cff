# SPDX-License-Identifier: MIT
"""The commands of `peel fleet` that need no keys: make a fleet, revoke and annotate devices."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from peel_gateway.fleet.guard import open_to_change
from peel_gateway.fleet.logins import gateway_password, password_lines
from peel_gateway.fleet.registry import ACTIVE, Device, Fleet, FleetError, parse_device
from peel_gateway.model.audit import ReasonError, check_reason
from peel_gateway.printing import explaining, json_option, print_json, print_table, who_option

__all__ = [
    "audit",
    "device_rows",
    "explained",
    "folder_argument",
    "group",
    "init",
    "logins",
    "note",
    "revoke",
    "show_devices",
    "unrevoke",
]

folder_argument = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


def explained() -> AbstractContextManager[None]:
    """Turn what is wrong with a fleet folder, or with a reason, into one line and its exit code."""
    return explaining(FleetError, ReasonError)


def device_rows(devices: Sequence[Device], **more: Sequence[object]) -> list[dict[str, Any]]:
    """Return devices as the registry has them, with further columns. It cannot know whether one is active: that takes a database."""
    return [
        {
            "device": device.label,
            "profile": device.profile,
            "group": device.group,
            "state": "registered" if device.state == ACTIVE else device.state,
            "created": device.created,
            "note": device.note,
            **dict(zip(more, values, strict=True)),
        }
        for device, *values in zip(devices, *more.values(), strict=True)
    ]


def show_devices(devices: Sequence[Device], as_json: bool, **more: Sequence[object]) -> None:
    """Print devices as a table or as JSON, with further columns."""
    rows = device_rows(devices, **more)
    if as_json:
        print_json({"items": rows})
        return
    header = ["device", "profile", "group", "state", "created", "note", *more]
    print_table(header, [[row[key] for key in header] for row in rows])


@click.command()
@folder_argument
@click.option("--name", required=True, help="Part of every topic: a-z, 0-9 and '-'.")
@click.option("--profile", "profiles", multiple=True, type=click.Path(path_type=Path), help="Profile file to copy in.")
@click.option(
    "--simulated", is_flag=True, help="For `peel simulate`: its devices have no bundles, and no board can join."
)
def init(folder: Path, name: str, profiles: Sequence[Path], simulated: bool) -> None:
    """Make a fleet folder with a new master key. Back the key up: without it the devices are lost."""
    with explained():
        Fleet.create(folder, name, profiles, simulated=simulated)
    if simulated:
        click.echo(f"{folder}: simulated fleet {name}; add devices with `peel fleet add {folder} --count N`")
    else:
        click.echo(f"{folder}: fleet {name}; keep {folder / 'master.key'} private and backed up")


@click.command()
@folder_argument
@click.argument("device", nargs=-1, required=True)
@json_option
@click.option("--reason", default="", help="Why, for the audit trail.")
@who_option
def revoke(folder: Path, device: Sequence[str], as_json: bool, reason: str, who: str) -> None:
    """Refuse devices' reports from now on; a running gateway follows within seconds."""
    with explained():
        ids = [parse_device(text) for text in device]
        revoked = open_to_change(folder).revoke(ids, reason=check_reason(reason) if reason else "", who=who)
    show_devices(revoked, as_json)


@click.command()
@folder_argument
@click.argument("device", nargs=-1, required=True)
@json_option
@click.option("--reason", required=True, help="Why, for the audit trail.")
@who_option
def unrevoke(folder: Path, device: Sequence[str], as_json: bool, reason: str, who: str) -> None:
    """Take devices' reports again that were revoked; what was refused meanwhile can be replayed (`peel gateway replay`)."""
    with explained():
        ids = [parse_device(text) for text in device]
        active = open_to_change(folder).unrevoke(ids, reason=check_reason(reason), who=who)
    show_devices(active, as_json)


@click.command()
@folder_argument
@json_option
def audit(folder: Path, as_json: bool) -> None:
    """List revocations and what was taken back of them, newest first. Pardons are in the gateway's own trail."""
    with explained():
        rows = [asdict(entry) for entry in reversed(Fleet(folder).audit())]
    if as_json:
        print_json({"items": rows})
        return
    header = ["time", "action", "device", "who", "reason"]
    print_table(header, [[row[key] for key in header] for row in rows])


@click.command()
@folder_argument
@click.argument("device")
@click.argument("text")
@json_option
def note(folder: Path, device: str, text: str, as_json: bool) -> None:
    """Set a device's note."""
    with explained():
        changed = open_to_change(folder).annotate(parse_device(device), text)
    show_devices([changed], as_json)


@click.command()
@folder_argument
@click.argument("name")
@click.argument("device", nargs=-1, required=True)
@json_option
def group(folder: Path, name: str, device: Sequence[str], as_json: bool) -> None:
    """Put devices into the group NAME, out of the one they were in; "" takes them out of any.

    Estimates of a group are about the devices that are in it now, their past included.
    """
    with explained():
        changed = open_to_change(folder).assign([parse_device(text) for text in device], name)
    show_devices(changed, as_json)


@click.command()
@folder_argument
@click.option("--gateway", is_flag=True, help="Print the gateway's password instead, for the file mqtt.password_file.")
def logins(folder: Path, gateway: bool) -> None:
    """Print mosquitto's password file: the logins of the gateway and of all devices but the revoked ones.

    Devices have them in bundles from a template with "mqtt": {"login": "own"}; the gateway's user is "gateway". Passwords follow from
    the master key, so they are the same each time. The file has them hashed.
    """
    with explained():
        opened = Fleet(folder)
        for line in [gateway_password(opened)] if gateway else password_lines(opened):
            click.echo(line)
