# SPDX-License-Identifier: MIT
"""`peel demo`: the whole system on this machine, from simulated sensors to estimates."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import click

from peel_core import ProfileError
from peel_gateway.exits import Exit
from peel_gateway.fleet.folder import FleetError
from peel_gateway.printing import explaining, json_option, print_json
from peel_tools.commands.simulate import attack_option, stopping_on_signals
from peel_tools.demo.demonstration import Demonstration
from peel_tools.demo.live import LiveSummary
from peel_tools.profiles.dataset import DatasetError
from peel_tools.servers.broker import BrokerError
from peel_tools.servers.gateway import GatewayError
from peel_tools.simulation.publisher import PublisherError
from peel_tools.simulation.session import Plan
from peel_tools.simulation.truth import TruthError

__all__ = ["demo"]

_BROKERS = {"auto": None, "mosquitto": False, "embedded": True}


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="Stop after this time; by default run until Ctrl-C."
)
@json_option
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to keep everything in. A former run in it is continued.",
)
@click.option("--devices", type=click.IntRange(1), default=200, show_default=True, help="Simulated devices.")
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), default=1000.0, show_default=True, help="Reports per second."
)
@click.option("--seed", type=click.IntRange(0), help="Seed of the simulated fleet; random by default.")
@click.option(
    "--broker",
    type=click.Choice(list(_BROKERS)),
    default="auto",
    help="mosquitto, or amqtt, which comes as a Python package (embedded).",
)
@click.option(
    "--csv",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with your own readings. A profile is proposed from its columns unless --profile gives one.",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Profile to use instead of the built-in one; repeat for more.",
)
@click.option(
    "--verify/--no-verify",
    default=True,
    show_default=True,
    help="Use verified coins. With --no-verify coins are judged by statistics. Profiles given with --profile say it themselves.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port of the page and the API; by default 8420, or a free one if that is taken.",
)
@attack_option
def demo(
    seconds: float | None,
    as_json: bool,
    folder: Path | None,
    devices: int,
    rate: float,
    seed: int | None,
    broker: str,
    csv: Path | None,
    profiles: tuple[Path, ...],
    verify: bool,
    port: int | None,
    shares: dict[str, float],
) -> None:
    """Run a broker, a gateway and a simulated fleet with attackers on this machine.

    Prints the address of the page and a live summary. Ctrl-C stops everything, and a second Ctrl-C skips the comparison. At the end the
    gateway's database is compared with the truth of the simulation.

    The exit code is 0 if every report was acknowledged and counted once, no honest device was exposed, and every attack was exposed by its
    layer (by statistics once a device has sent enough). Otherwise it is 1, and the errors say what differs.

    \b
    peel demo
    peel demo --csv weather.csv                     your own readings
    peel demo --attack stuck=0.05 --attack replay=0.02
    peel demo --no-verify                           judge coins by statistics
    peel demo --seconds 30 --json                   for scripts
    """
    plan = Plan(rate=rate, shares=shares, seed=seed, csv=csv)
    show = LiveSummary(sys.stderr if as_json else sys.stdout)
    with explaining(ValueError):
        demonstration = Demonstration(
            folder=folder, devices=devices, plan=plan, profiles=profiles, verify=verify, port=port, embedded=_BROKERS[broker],
            on_progress=show.progress,
        )  # fmt: skip
    # A supervisor's SIGTERM must not leave broker and gateway behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        explaining(
            BrokerError,
            DatasetError,
            FleetError,
            GatewayError,
            ProfileError,
            PublisherError,
            TruthError,
            ValueError,
        ),
        ExitStack() as undo,
    ):
        undo.callback(demonstration.stop)
        show.say("starting broker, gateway and fleet")
        demonstration.start()
        stopping_on_signals(undo, demonstration.session.simulation)
        show.begin(demonstration, until=None if seconds is None else time.monotonic() + seconds)
        demonstration.run(seconds)
        show.settling()
        outcome = demonstration.settle()
        show.end(outcome)
    if as_json:
        print_json(outcome.table())
    for fault in outcome.faults:
        click.echo(f"Error: {fault}", err=True)
    if outcome.faults:
        sys.exit(Exit.FOUND)
