# SPDX-License-Identifier: MIT
"""``peel fleet``: the registry's commands, and provisioning, which needs a board at the end of a cable."""

from __future__ import annotations

import click

from peel_tools.lazy_group import LazyGroup

__all__ = ["fleet"]

_COMMANDS = {
    "init": ("peel_gateway.fleet.commands:init", "Make a fleet folder with a new master key."),
    "add": ("peel_tools.commands.fleet_bundles:add", "Register devices and write their provisioning bundles."),
    "list": (
        "peel_gateway.commands.fleet_list:list_devices",
        "List the devices, with what their gateway knows of them where its database is at hand.",
    ),
    "revoke": ("peel_gateway.fleet.commands:revoke", "Refuse devices' reports from now on."),
    "unrevoke": ("peel_gateway.fleet.commands:unrevoke", "Take devices' reports again that were revoked."),
    "audit": ("peel_gateway.fleet.commands:audit", "List revocations and what was taken back of them."),
    "group": ("peel_gateway.fleet.commands:group", "Put devices into the group NAME, out of the one they were in."),
    "note": ("peel_gateway.fleet.commands:note", "Set a device's note."),
    "accept-restored": (
        "peel_gateway.commands.fleet_restored:accept_restored",
        "Go on with a folder that was restored from an old copy.",
    ),
    "bundle": ("peel_tools.commands.fleet_bundles:bundle", "Write devices' bundles again."),
    "logins": (
        "peel_gateway.fleet.commands:logins",
        "Print mosquitto's password file: the logins of the gateway and of all devices but the revoked ones.",
    ),
    "provision": (
        "peel_tools.flashing.commands:provision_device",
        "Put the application and DEVICE's bundle onto a board that runs MicroPython.",
    ),
}


@click.group(cls=LazyGroup, table=_COMMANDS)
def fleet() -> None:
    """Register, provision and revoke devices."""
