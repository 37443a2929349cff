# SPDX-License-Identifier: MIT
"""Checks of a bundle before it goes onto a board.

The firmware's own code checks the bundle against its board and its quota. The file `<device>.provisioned` beside each bundle says
which bundle was put onto a board last. It is written just before a board could begin to use the bundle, so that no board starts a
second ledger at the same numbers."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peel_core.profile import even_interval
from peel_gateway.fleet.device import FleetError, parse_device
from peel_tools.boards.table import BOARDS
from peel_tools.flashing import FlashError
from peel_tools.flashing.device_files import firmware_folder

__all__ = [
    "BundleError",
    "bundle_command",
    "check_bundle",
    "check_history",
    "fresh_bundle_advice",
    "note_provisioned",
    "why_missing",
]


class BundleError(ValueError):
    """A bundle that a device would refuse, or that its board could not follow. The message names the key."""


def check_bundle(bundle: Mapping[str, Any]) -> None:
    """Raise BundleError if a device would refuse this bundle, or could not do what it asks for."""
    config = _device_config()
    try:
        config.Config(bundle)
    except config.ConfigError as error:
        raise BundleError(str(error)) from None
    _check_link(bundle)
    _check_interval(bundle)


def why_missing(bundle: Path) -> str:
    """Say why there is no FLEET/bundles/DEVICE.json, and what to do. A fresh bundle comes last: it replaces the device's keys."""
    from peel_gateway.fleet.folder import Fleet  # loads numpy, which `--help` must not

    folder = bundle.parents[1] if len(bundle.parents) > 1 else Path()
    try:
        fleet = Fleet(folder)
        if fleet.simulated:
            return (
                f"{folder}: is a simulated fleet; its devices exist only in `peel simulate` and have no bundles. For boards make "
                "another: `peel fleet init FOLDER --name NAME`, then `peel fleet add FOLDER`"
            )
        device = fleet.device(parse_device(bundle.stem))
    except FleetError as error:
        return f"{bundle}: no such file. {error}"
    if not device.bundles:
        return f"{bundle}: no bundle was issued to the device yet; write it with `{bundle_command(bundle)}`"
    return f"{bundle}: no such file, though a bundle was issued at {device.bundles[-1].made}. {fresh_bundle_advice(bundle)}"


def bundle_command(bundle: Path) -> str:
    """Return the command that writes FLEET/bundles/DEVICE.json again."""
    return shlex.join(["peel", "fleet", "bundle", str(bundle.parent.parent), bundle.stem])


def fresh_bundle_advice(bundle: Path) -> str:
    """Say what to do about a bundle that is lost or damaged."""
    return (
        f"Restore it from your backup, or write one with new keys: `{bundle_command(bundle)}`. "
        "A board that has the former bundle is refused a week later, unless it gets the new one"
    )


@functools.cache
def _device_config() -> Any:
    """Return the firmware's module that checks bundles. It runs on any Python."""
    folder = str(firmware_folder())
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("peel_device.config")
    finally:
        sys.path.remove(folder)


def _check_link(bundle: Mapping[str, Any]) -> None:
    """Check that the bundle's board has its transport. A bundle without a board is for the one it is put onto."""
    board = BOARDS.get(bundle.get("board", ""))
    if board is None or bundle.get("transport", "wifi") != "wifi":
        return
    if not board.network:
        raise BundleError(f'transport: board {board.name} has no network of its own: say "uart"')
    if not board.in_place and "wifi" not in bundle:
        raise BundleError(f"wifi: is missing: board {board.name} needs to know which network to join")


def _check_interval(bundle: Mapping[str, Any]) -> None:
    """Check that the quota allows the bundle's interval."""
    profile = bundle["profile"]
    least = even_interval(profile["quota"], profile["period"])
    if bundle["interval_s"] < least:
        raise BundleError(
            f"interval_s: {bundle['interval_s']:g} s is more often than {profile['quota']} reports in any {profile['period']} s allow: "
            f"{least:g} s at least, or leave it out, or take a profile with a larger quota"
        )


FRESH_SECONDS = 3600.0
"""The maximum age of a bundle for a device that has run before: it covers only numbers used until it was made."""
_STEP_SECONDS = 60.0
"""A tolerance for small clock corrections."""


def check_history(bundle: Path, has_ledger: bool) -> None:
    """Raise FlashError if a board without a ledger could repeat report numbers of an earlier one."""
    former = _former(bundle)
    if has_ledger or former is None:
        return
    advice = f"Write a new bundle with `{bundle_command(bundle)}`, and try again"
    if former == _digest(bundle):
        raise FlashError(
            f"{bundle}: was put onto a board before, and this board has no ledger (it was erased, or is another one). "
            f"It would use the same report numbers again. {advice}"
        )
    if not -_STEP_SECONDS < time.time() - bundle.stat().st_mtime < FRESH_SECONDS:
        raise FlashError(
            f"{bundle}: is more than an hour old by this machine's clock, or from the future. The device has run before on another board, "
            f"which may have used more report numbers since. {advice}"
        )


def note_provisioned(bundle: Path) -> None:
    """Record that a board has this bundle and may start at any moment."""
    _mark(bundle).write_text(json.dumps({"sha256": _digest(bundle), "at": round(time.time())}) + "\n")


def _former(bundle: Path) -> str | None:
    """Return the digest of the bundle that was provisioned last, or None if there was none."""
    try:
        return str(json.loads(_mark(bundle).read_text())["sha256"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise FlashError(
            f"{_mark(bundle)}: cannot be read: whether this device has run before is not known. If it has, write a fresh bundle: "
            f"`{bundle_command(bundle)}`. Then remove that file and try again"
        ) from None


def _mark(bundle: Path) -> Path:
    return bundle.with_suffix(".provisioned")


def _digest(bundle: Path) -> str:
    return hashlib.sha256(bundle.read_bytes()).hexdigest()
