# SPDX-License-Identifier: MIT
"""`peel fleet`: the table of its commands."""

from __future__ import annotations

import click

from peel_tools.lazy_group import LazyGroup

__all__ = ["fleet"]

_COMMANDS = {
    "init": ("peel_gateway.commands.fleet:init", "Make a fleet folder with a new master key."),
    "add": ("peel_tools.commands.fleet_bundles:add", "Register devices and write their provisioning bundles."),
    "list": (
        "peel_gateway.commands.fleet:list_devices",
        "List the devices, with what the gateway's database knows of them if there is one.",
    ),
    "revoke": ("peel_gateway.commands.fleet:revoke", "Refuse devices' reports from now on."),
    "unrevoke": ("peel_gateway.commands.fleet:unrevoke", "Accept reports of revoked devices again."),
    "audit": ("peel_gateway.commands.fleet:audit", "List who revoked and unrevoked which device, newest first."),
    "group": (
        "peel_gateway.commands.fleet:group",
        'Move devices into the group NAME; "" removes them from their group.',
    ),
    "note": ("peel_gateway.commands.fleet:note", "Set a device's note."),
    "accept-restored": (
        "peel_gateway.commands.fleet:accept_restored",
        "Continue with a fleet folder that was restored from an old copy.",
    ),
    "bundle": (
        "peel_tools.commands.fleet_bundles:bundle",
        "Write new bundles for devices whose boards were erased, replaced or stolen.",
    ),
    "logins": (
        "peel_gateway.commands.fleet:logins",
        "Print mosquitto's password file: the logins of the gateway and of all devices that are not revoked.",
    ),
    "provision": (
        "peel_tools.commands.provision:provision_device",
        "Put the application and DEVICE's bundle onto a board that runs MicroPython.",
    ),
}


@click.group(cls=LazyGroup, table=_COMMANDS)
def fleet() -> None:
    """Register, provision and revoke devices."""
