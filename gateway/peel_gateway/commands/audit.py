# SPDX-License-Identifier: MIT
"""`peel gateway pardon`, `release` and `audit`."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from pathlib import Path

import click
import numpy as np

from peel_gateway.commands.shared import given_as_query, opened
from peel_gateway.engine.pardon import PardonError, exposed_devices
from peel_gateway.engine.pardon import pardon as pardon_devices
from peel_gateway.engine.release import ReleaseError
from peel_gateway.engine.release import release as release_devices
from peel_gateway.fleet.folder import device_label, parse_device
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_gateway.model.exposure import check_reason
from peel_gateway.printing import json_option, print_json, print_table, who_option
from peel_gateway.queries.parameters import MOST_ITEMS, AuditQuery, ExposureQuery, QueryError, SpanQuery, parse_query
from peel_gateway.queries.responses import AuditItem
from peel_gateway.queries.views import Views, audit_item
from peel_gateway.settings.reading import config_option, pasteable
from peel_gateway.storage.store import Archive

__all__ = ["audit", "pardon", "release"]


@click.command()
@config_option
@json_option
@click.argument("device", nargs=-1)
@click.option("--reason", required=True, help="Why, for the audit trail.")
@who_option
@click.option(
    "--restore/--forfeit",
    default=False,
    help="Count their earlier reports again, or leave them withdrawn for good.  [default: forfeit]",
)
@click.option("--cause", help="Instead of naming devices: all that this verdict has exposed, without revoked ones.")
@click.option("--since", help="With --cause: exposed at or after this time, Unix seconds or ISO 8601.")
@click.option("--until", help="With --cause: exposed at or before this time.")
@click.option("--yes", is_flag=True, help="With --cause: do not ask for confirmation.")
def pardon(
    config: Path | None,
    as_json: bool,
    device: Sequence[str],
    reason: str,
    who: str,
    restore: bool,
    cause: str | None,
    since: str | None,
    until: str | None,
    yes: bool,
) -> None:
    """Pardon exposed devices: from now on their reports count again, and they are judged as if they were new.

    Fix the cause first. A running gateway follows with its next batch.
    """
    with opened(config, compared=True) as (_, store, snapshot):
        text = check_reason(reason)
        if bool(device) == bool(cause):
            raise QueryError("device: name devices, or give --cause (with --since and --until), but not both")
        chosen = (
            [_known(store, snapshot, name) for name in device]
            if device
            else _by_cause(store, snapshot.revoked, cause, since, until)
        )
        if cause and not yes:
            _confirm(chosen, as_json)
        entries = pardon_devices(store, chosen, restore=restore, reason=text, who=who)
    _show_pardons([audit_item(entry) for entry in entries], as_json)


def _known(store: Archive, snapshot: FleetSnapshot, name: str) -> int:
    """Return the id of a device that the gateway has heard."""
    device = parse_device(name)
    if len(store.devices(np.array([device]))):
        return device
    registered = snapshot.devices.has(device)
    what = "has never sent a report, so there is nothing to pardon" if registered else "is not registered in this fleet"
    raise PardonError(f"device {device_label(device)}: {what}")


def _by_cause(
    store: Archive, revoked: Collection[int], cause: str | None, since: str | None, until: str | None
) -> list[int]:
    """Return the devices that one verdict has exposed, without the revoked ones: the operator has decided about them."""
    query = parse_query(ExposureQuery, given_as_query(verdict=cause, since=since))
    last = parse_query(SpanQuery, given_as_query(until=until)).until  # apart, because it may be the same moment
    if len(query.verdict) != 1:
        raise QueryError(f"cause: must be one verdict, got {cause!r}")
    end = math.inf if last is None else last
    found = exposed_devices(store.exposed(), *query.verdict, since=query.since or 0.0, until=end)
    chosen = [device for device in found if device not in revoked]
    if not chosen:
        span = "".join(f" {word} {time}" for word, time in (("since", since), ("until", until)) if time)
        raise PardonError(f"no device is exposed by {cause}{span}; revoked devices do not count")
    return chosen


def _confirm(devices: Sequence[int], as_json: bool) -> None:
    """Ask for confirmation: forfeited reports cannot be restored."""
    if as_json:
        raise QueryError("yes: --json cannot ask for confirmation. Add --yes.")
    click.echo(f"exposed: {' '.join(device_label(device) for device in devices)}", err=True)
    click.confirm(f"pardon {len(devices)} devices?", abort=True, err=True)


def _show_pardons(rows: Sequence[AuditItem], as_json: bool) -> None:
    restored = sum(row["reports"] for row in rows if row["restored"])
    forfeited = sum(row["reports"] for row in rows if not row["restored"])
    if as_json:
        print_json({"items": rows, "restored": restored, "forfeited": forfeited})
        return
    print_table(_AUDIT_COLUMNS, [[row.get(key) for key in _AUDIT_COLUMNS] for row in rows])
    click.echo(
        f"{len(rows)} pardoned; {restored} reports count again, {forfeited} stay withdrawn for good. "
        "Reports sent while exposed were not judged and do not count."
    )
    causes = {row["cause"] for row in rows if row["cause"]}
    for verdict in sorted(causes & _STILL_TO_DO.keys()):
        click.echo(pasteable(f"{verdict}: {_STILL_TO_DO[verdict]}"), err=True)


_AUDIT_COLUMNS = ["device", "cause", "restored", "reports", "time", "who", "reason"]
_STILL_TO_DO = {
    "reused": "two boards had its keys; give one of them a new bundle (`peel fleet bundle FOLDER DEVICE`), or it is exposed again",
    "rule": "its board must get the profile's odds (`peel fleet bundle FOLDER DEVICE`), or it is exposed again",
    "support": "its board must get sound firmware and its own keys, or it is exposed again",
    "structure": "its board must get sound firmware and its profile (`peel fleet bundle FOLDER DEVICE`), or it is exposed again",
    "coin": "its board must get sound firmware; it commits to new coins, and is exposed again if it opens others",
    "statistics": "its tests start again: a device that does not randomize honestly is exposed again, after as many reports",
}
"""Per verdict: what remains to be fixed after a pardon."""


@click.command()
@config_option
@json_option
@click.argument("device", nargs=-1, required=True)
@click.option("--reason", required=True, help="Why, for the audit trail.")
@who_option
def release(config: Path | None, as_json: bool, device: Sequence[str], reason: str, who: str) -> None:
    """Release devices with verified coins that are stalled or have lost their flash: their batches are void.

    Their held reports never count, and no device is blamed. A device goes on with the next batch that it commits to.
    A running gateway follows with its next batch.
    """
    with opened(config, compared=True) as (_, store, snapshot):
        text = check_reason(reason)
        chosen = [_with_coins(store, snapshot, name) for name in device]
        entries = release_devices(store, chosen, reason=text, who=who)
    rows = [audit_item(entry) for entry in entries]
    dropped = sum(row["reports"] for row in rows)
    if as_json:
        print_json({"items": rows, "dropped": dropped})
        return
    columns = ["device", "reports", "time", "who", "reason"]
    print_table(columns, [[row.get(key) for key in columns] for row in rows])
    click.echo(f"{len(rows)} released; {dropped} held reports were dropped and never count.")


def _with_coins(store: Archive, snapshot: FleetSnapshot, name: str) -> int:
    """Return the id of a device that may have verified coins. Raises ReleaseError for a device that cannot have any."""
    device = parse_device(name)
    (row,) = snapshot.devices.rows(np.array([device])).tolist()
    if row < 0:
        raise ReleaseError(f"device {device_label(device)}: is not registered in this fleet")
    profile = snapshot.devices[row].profile
    ids = np.array([device])
    has_coins = bool(store.unanswered(ids)) or bool(store.devices(ids).held.any())
    if not any(each.verified for each in snapshot.profiles if each.name == profile) and not has_coins:
        raise ReleaseError(
            f"device {device_label(device)}: its profile {profile!r} has no verified coins, so there is nothing to release"
        )
    return device


@click.command()
@config_option
@json_option
@click.option("--device", help="One device only, hexadecimal.")
@click.option("--limit", type=int, default=100, show_default=True, help=f"Most rows, up to {MOST_ITEMS}.")
@click.option("--before", type=int, help="Continue below this id.")
def audit(config: Path | None, as_json: bool, **given: object) -> None:
    """List pardons and releases, and revocations in the fleet folder, newest first."""
    with opened(config) as (_, store, snapshot):
        page = Views(store, lambda: snapshot).audit(parse_query(AuditQuery, given_as_query(**given)))
    if as_json:
        print_json(page)
        return
    header = ["id", "action", *_AUDIT_COLUMNS]
    print_table(header, [[row.get(key) for key in header] for row in [*page["items"], *page["fleet"]]])
    if page["next"]:
        click.echo(f"more: --before {page['next']}", err=True)
