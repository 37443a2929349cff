# SPDX-License-Identifier: MIT
"""The ``peel`` command. Each area brings its own group; they are imported when used, so that ``peel --help`` is quick."""

from __future__ import annotations

from importlib import import_module

import click

#: Subcommand to (module, attribute, one-line help).
_COMMANDS = {
    "profile": ("peel_tools.commands.profile", "profile", "Make, check and show profiles."),
    "fleet": ("peel_tools.commands.fleet", "fleet", "Register, provision and revoke devices."),
    "gateway": ("peel_gateway.commands", "gateway", "Run the gateway; ask it for estimates and exposures."),
    "simulate": (
        "peel_tools.commands.simulate",
        "simulate",
        "Run a simulated fleet, attackers included, against a broker.",
    ),
    "demo": ("peel_tools.commands.demo", "demo", "Broker, gateway and fleet on this machine, all at once."),
    "firmware": ("peel_tools.commands.firmware", "firmware", "Build and flash firmware and native modules."),
    "bench": ("peel_tools.commands.bench", "bench", "Measure sizes and speed."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="peel-telemetry")
def main() -> None:
    """Locally private sensor telemetry that exposes poisoning."""
