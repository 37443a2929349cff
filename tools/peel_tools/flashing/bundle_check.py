# SPDX-License-Identifier: MIT
"""A bundle, checked as its device will check it: by the firmware's own code, against its board and its quota, before it goes anywhere."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peel_core.profile import even_interval
from peel_gateway.fleet.device import FleetError, parse_device
from peel_tools.boards.table import BOARDS
from peel_tools.flashing.sources import firmware_folder

__all__ = ["BundleError", "check_bundle", "fresh_bundle_advice", "why_missing"]


class BundleError(ValueError):
    """A bundle that no device would take, or that its board could not follow; the message names the key."""


def check_bundle(bundle: Mapping[str, Any]) -> None:
    """Raise BundleError where a device would stop with this bundle, or could not do what it says."""
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
        return f"{bundle}: no bundle was issued to the device yet; write it with `peel fleet bundle {folder} {device.label}`"
    return f"{bundle}: no such file, though a bundle was issued at {device.bundles[-1].made}. {fresh_bundle_advice(bundle)}"


def fresh_bundle_advice(bundle: Path) -> str:
    """Say what to do about a bundle that is lost or damaged."""
    return (
        f"Restore it from your backup, or write one with new keys: `peel fleet bundle {bundle.parent.parent} {bundle.stem}`. "
        "A board that has the former bundle is refused a week later, unless it gets the new one"
    )


@functools.cache
def _device_config() -> Any:
    """The firmware's module that checks bundles; it runs on any Python."""
    folder = str(firmware_folder())
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("peel_device.config")
    finally:
        sys.path.remove(folder)


def _check_link(bundle: Mapping[str, Any]) -> None:
    """Whether its board reaches the broker in the way that it says; a bundle without a board is for the one that it is put onto."""
    board = BOARDS.get(bundle.get("board", ""))
    if board is None or bundle.get("transport", "wifi") != "wifi":
        return
    if not board.network:
        raise BundleError(f'transport: board {board.name} has no network of its own: say "uart"')
    if not board.in_place and "wifi" not in bundle:
        raise BundleError(f"wifi: is missing: board {board.name} needs to know which network to join")


def _check_interval(bundle: Mapping[str, Any]) -> None:
    """Whether the quota lets a device report as often as it is told to."""
    profile = bundle["profile"]
    least = even_interval(profile["quota"], profile["period"])
    if bundle["interval_s"] < least:
        raise BundleError(
            f"interval_s: {bundle['interval_s']:g} s is more often than {profile['quota']} reports in any {profile['period']} s allow: "
            f"{least:g} s at least, or leave it out, or take a profile with a larger quota"
        )
