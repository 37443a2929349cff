# SPDX-License-Identifier: MIT
"""The ``peel`` command. Each area brings its own command or group."""

from __future__ import annotations

import click

from peel_tools.lazy_group import LazyGroup

_COMMANDS = {
    "plan": ("peel_tools.commands.plan:plan", "Say what a fleet would know, give away and cost."),
    "profile": ("peel_tools.commands.profile:profile", "Make, check and show profiles."),
    "fleet": ("peel_tools.commands.fleet:fleet", "Register, provision and revoke devices."),
    "gateway": ("peel_gateway.commands:gateway", "Run the gateway; ask it for estimates and exposures."),
    "simulate": (
        "peel_tools.commands.simulate:simulate",
        "Run a simulated fleet, attackers included, against a broker.",
    ),
    "demo": (
        "peel_tools.commands.demo:demo",
        "Broker, gateway and a simulated fleet with attackers on this machine, all at once.",
    ),
    "device": ("peel_tools.commands.device:device", "Run a device's firmware on this machine."),
    "soak": (
        "peel_tools.commands.soak:soak_command",
        "Break everything on purpose for a while, then see that nothing was lost or counted twice.",
    ),
    "firmware": ("peel_tools.commands.firmware:firmware", "Build and flash firmware and native modules."),
    "bench": ("peel_tools.commands.bench:bench", "Measure sizes and speed."),
}


@click.group(cls=LazyGroup, table=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="peel-telemetry")
def main() -> None:
    """Locally private sensor telemetry that exposes poisoning."""
