# SPDX-License-Identifier: MIT
"""The commands of `peel fleet`, except those that write bundles or flash boards.

What needs a database is imported in the functions that open one: `peel fleet note` loads no store.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from peel_gateway.fleet.bundle import gateway_password, password_lines
from peel_gateway.fleet.device import no_such_tag, tag_normalized
from peel_gateway.fleet.directory import DeviceDirectory
from peel_gateway.fleet.directory_file import History
from peel_gateway.fleet.folder import ACTIVE, Device, Fleet, FleetError, device_label, parse_device
from peel_gateway.model.exposure import ReasonError, check_reason
from peel_gateway.printing import explaining, json_option, print_json, print_table, who_option
from peel_gateway.settings import Settings, SettingsError
from peel_gateway.settings.reading import config_option, find_settings

__all__ = [
    "accept_restored",
    "audit",
    "device_rows",
    "explained",
    "folder_argument",
    "init",
    "list_devices",
    "logins",
    "note",
    "open_to_change",
    "revoke",
    "show_devices",
    "tag",
    "unrevoke",
]

folder_argument = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


def explained() -> AbstractContextManager[None]:
    """Turn a FleetError or ReasonError into one line and its exit code."""
    return explaining(FleetError, ReasonError)


def open_to_change(folder: Path, config: Path | None = None) -> Fleet:
    """Open a fleet folder for changes. If the gateway's database knows a newer devices.jsonl, each change is refused."""
    return Fleet(folder, guard=lambda history: _compare(folder, config, history))


def _compare(folder: Path, config: Path | None, history: History) -> None:
    # A stolen board must be revocable even if the settings are wrong or the database cannot be reached: warn and go on.
    warning = "the folder was not compared with the gateway's database: "
    try:
        settings = find_settings(config)
    except SettingsError as error:
        click.echo(f"{warning}{error}", err=True)
        return
    if settings.fleet_folder.resolve() != folder.resolve():
        return
    from peel_gateway.storage.choice import missing_store, open_archive
    from peel_gateway.storage.store import StoreError

    try:
        if missing_store(settings):
            return
        with closing(open_archive(settings)) as archive:
            seen = archive.registry()
    except (SettingsError, StoreError) as error:
        click.echo(f"{warning}{error}", err=True)
        return
    history.follow(seen)


def device_rows(devices: Sequence[Device], **more: Sequence[object]) -> list[dict[str, Any]]:
    """Return devices as rows with further columns. Their state is "registered" or "revoked": only the database knows which are active."""
    return [
        {
            "device": device.label,
            "profile": device.profile,
            "tags": list(device.tags),
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
    header = ["device", "profile", "tags", "state", "created", "note", *more]
    print_table(header, [[row[key] for key in header] for row in rows])


@click.command()
@folder_argument
@click.option("--name", required=True, help="Part of every topic: a-z, 0-9 and '-'.")
@click.option("--profile", "profiles", multiple=True, type=click.Path(path_type=Path), help="Profile file to copy in.")
@click.option(
    "--simulated", is_flag=True, help="For `peel simulate`: its devices have no bundles, and no board can join."
)
def init(folder: Path, name: str, profiles: Sequence[Path], simulated: bool) -> None:
    """Make a fleet folder with a new master key. Back up the key: without it all devices must be enrolled again."""
    with explained():
        Fleet.create(folder, name, profiles, simulated=simulated)
    if simulated:
        click.echo(f"{folder}: simulated fleet {name}; add devices with `peel fleet add {folder} --count N`")
    else:
        click.echo(f"{folder}: fleet {name}; keep {folder / 'master.key'} private and backed up")


@click.command("list")
@folder_argument
@config_option
@json_option
@click.option("--tag", help="Only the devices with this tag.")
def list_devices(folder: Path, config: Path | None, as_json: bool, tag: str | None) -> None:
    """List the devices, with what the gateway's database knows of them if there is one.

    "left" counts the numbers that a new bundle would get from the profile's lifetime; numbers that may have been used count as used.
    The devices themselves report firmware, failing sensors, skipped readings, dropped frames and entropy.
    """
    with explaining(FleetError, SettingsError):
        fleet = Fleet(folder)
        devices = _with_tag(fleet.devices(), tag)
        rows = device_rows(devices, left=fleet.left(devices))
        settings = find_settings(config)
        ours = settings.fleet_folder.resolve() == folder.resolve()
        if config is not None and not ours:
            raise SettingsError(
                f"{config}: fleet.folder is {settings.fleet_folder}, not {folder}. Name the settings of this fleet's gateway."
            )
    if ours and _has_database(settings):
        from peel_gateway.commands.queries import show_known_devices

        show_known_devices(settings, fleet, rows, as_json)
    elif as_json:
        print_json({"items": rows})
    else:
        print_table(list(rows[0]) if rows else ["device"], [list(row.values()) for row in rows])


def _with_tag(devices: DeviceDirectory, tag: str | None) -> DeviceDirectory:
    if tag is None:
        return devices
    found = devices.take(np.flatnonzero(devices.matching(None, tag_normalized(tag))))
    if not len(found):
        raise click.BadParameter(no_such_tag(tag, devices.tags), param_hint="--tag")
    return found


def _has_database(settings: Settings) -> bool:
    if settings.store_url is None:
        return settings.store_path.exists()
    from peel_gateway.storage.choice import missing_store
    from peel_gateway.storage.store import StoreError

    with explaining(StoreError):
        return not missing_store(settings)


@click.command()
@folder_argument
@click.argument("device", nargs=-1, required=True)
@json_option
@click.option("--reason", default="", help="Why, for the audit trail.")
@who_option
def revoke(folder: Path, device: Sequence[str], as_json: bool, reason: str, who: str) -> None:
    """Refuse devices' reports from now on. A running gateway follows within seconds."""
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
    """Accept reports of revoked devices again. `peel gateway replay` processes what was refused in the meantime."""
    with explained():
        ids = [parse_device(text) for text in device]
        active = open_to_change(folder).unrevoke(ids, reason=check_reason(reason), who=who)
    show_devices(active, as_json)


@click.command()
@folder_argument
@json_option
def audit(folder: Path, as_json: bool) -> None:
    """List who revoked and unrevoked which device, newest first. `peel gateway audit` lists pardons and releases too."""
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
@click.argument("device", nargs=-1, required=True)
@json_option
@click.option("--add", multiple=True, help="Add this tag; repeat for several.")
@click.option("--remove", multiple=True, help="Remove this tag; repeat for several.")
def tag(folder: Path, device: Sequence[str], as_json: bool, add: Sequence[str], remove: Sequence[str]) -> None:
    """Add tags to devices, or remove tags from them.

    A tag is a text in any language, such as a floor or a customer; a device has up to 16. A tag's estimates use all reports of the
    devices that have it now, earlier ones included.
    """
    with explained():
        opened = open_to_change(folder)
        if not (add or remove):
            raise click.UsageError("nothing to change: give --add TAG or --remove TAG")
        changed = opened.tag([parse_device(text) for text in device], add=add, remove=remove)
    show_devices(changed, as_json)


@click.command()
@folder_argument
@click.option("--gateway", is_flag=True, help="Print the gateway's password instead, for the file mqtt.password_file.")
def logins(folder: Path, gateway: bool) -> None:
    """Print mosquitto's password file: the logins of the gateway and of all devices that are not revoked.

    A bundle has its device's login if the template has "mqtt": {"login": "own"}. The gateway's user is "gateway". Passwords are derived
    from the master key, so they are the same each time. The file contains their hashes.
    """
    with explained():
        opened = Fleet(folder)
        for line in [gateway_password(opened)] if gateway else password_lines(opened):
            click.echo(line)


@click.command("accept-restored")
@folder_argument
@config_option
@json_option
def accept_restored(folder: Path, config: Path | None, as_json: bool) -> None:
    """Continue with a fleet folder that was restored from an old copy. Stop the gateway first.

    Use this only if the newest devices.jsonl is lost. Afterwards the gateway accepts the folder. New ids continue above the highest that
    was given out, and each device's numbers above the highest that the gateway has stored. Revocations since the copy are lost:
    repeat them.
    """
    from peel_gateway.commands import shared
    from peel_gateway.storage.choice import open_archive

    with shared.explained():
        fleet = Fleet(folder)
        settings = shared.find_used_settings(config)
        if settings.fleet_folder.resolve() != folder.resolve():
            raise SettingsError(
                f"fleet.folder: the gateway uses {settings.fleet_folder}, not {folder}. "
                "Name the settings of this fleet's gateway with --config."
            )
        with closing(open_archive(settings)) as archive:
            heard = archive.devices()
            accepted = fleet.accept(archive.registry(), heard.device, heard.last_number)
    rows = {name: list(map(device_label, ids)) for name, ids in accepted._asdict().items()}
    if as_json:
        print_json(rows)
        return
    click.echo(
        f"{folder}: accepted. Repeat the revocations made since the copy; `peel fleet audit` lists the earlier ones."
    )
    if rows["without_bundle"]:
        click.echo(
            "The newest bundles of some devices are lost. Write new ones, and put them onto their boards: "
            f"`peel fleet bundle {shlex.quote(str(folder))} {' '.join(rows['without_bundle'])}`"
        )
    if rows["unknown"]:
        click.echo(
            "Some devices were enrolled after the copy. Enrol them again, and put the bundles onto their boards: "
            f"`peel fleet add {shlex.quote(str(folder))} {' '.join(f'--id {label}' for label in rows['unknown'])}`"
        )
