# SPDX-License-Identifier: MIT
"""`peel soak`: inject faults by a schedule, and compare the gateway with a model."""

from __future__ import annotations

import secrets
import signal
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from peel_gateway.exits import Exit
from peel_gateway.fleet.folder import FleetError
from peel_gateway.printing import explaining, json_option, print_json
from peel_research.soak.run import Result, soak
from peel_research.soak.schedule import KINDS, make_schedule
from peel_research.soak.stage import Stage
from peel_research.soak.stores import STORES
from peel_tools.boards.build_tools import BuildError
from peel_tools.flashing import FlashError
from peel_tools.servers.broker import BROKERS, BrokerError
from peel_tools.servers.gateway import GatewayError
from peel_tools.simulation.publisher import PublisherError

__all__ = ["soak_command"]

_MILLISECONDS = 1000


@click.command("soak")
@click.option(
    "--seconds", type=click.FloatRange(5), default=30.0, show_default=True, help="Seconds of fault injection."
)
@click.option("--seed", type=click.IntRange(0), help="Seed of the schedule and the readings; random by default.")
@click.option(
    "--without",
    multiple=True,
    metavar="KIND",
    type=click.Choice(list(KINDS)),
    help=f"Leave out a kind of fault; the rest of the schedule stays the same. Kinds: {', '.join(KINDS)}.",
)
@click.option("--plan", "show_plan", is_flag=True, help="Only print the schedule.")
@json_option
@click.option(
    "--boards",
    type=click.IntRange(1, 50),
    default=4,
    show_default=True,
    help="Devices with the real firmware, one process each.",
)
@click.option("--devices", type=click.IntRange(20), default=60, show_default=True, help="Simulated devices.")
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=200.0,
    show_default=True,
    help="Reports per second of the simulated devices.",
)
@click.option(
    "--drain",
    type=click.FloatRange(1),
    default=180.0,
    show_default=True,
    help="Most seconds at the end for reports to arrive.",
)
@click.option(
    "--confirm",
    type=click.Choice(["gateway", "broker"]),
    default="gateway",
    show_default=True,
    help="A device forgets a report when the gateway has confirmed it, or when the broker (which may lose it) has acknowledged it.",
)
@click.option(
    "--broker",
    type=click.Choice(list(BROKERS)),
    default="mosquitto",
    show_default=True,
    help="Broker to test.",
)
@click.option(
    "--store",
    type=click.Choice(list(STORES)),
    default="sqlite",
    show_default=True,
    help="Store: the file of one gateway, or PostgreSQL with two workers.",
)
@click.option("--verify/--no-verify", default=True, show_default=True, help="Whether coins are verified.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Empty folder to keep everything in; by default a temporary one, removed at the end.",
)
def soak_command(
    seconds: float,
    seed: int | None,
    without: tuple[str, ...],
    show_plan: bool,
    as_json: bool,
    boards: int,
    devices: int,
    rate: float,
    drain: float,
    confirm: str,
    broker: str,
    store: str,
    verify: bool,
    folder: Path | None,
) -> None:
    """Inject faults into a whole system by a repeatable schedule; then check that no report was lost or counted twice.

    A broker, one or several gateways, devices with the real firmware and a simulated fleet with attackers run on this machine.
    Meanwhile processes are killed and stopped, the broker loses its messages, and lines are cut and slow. The disk fills up, the
    database is locked, the clock is wrong, and devices lose power and flash. A model notes every report that a device makes. In the
    end all faults are healed, and the gateway's database is compared with the model.

    Exit code 0 when nothing is lost, counted twice or altered, and nobody honest is exposed; 1 otherwise.
    """
    seed = secrets.randbits(32) if seed is None else seed
    schedule = [fault for fault in make_schedule(seconds, seed, boards, store) if fault.kind not in without]
    if show_plan:
        click.echo("\n".join(map(str, schedule)))
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no process is to be left behind
    click.echo(f"seed {seed}: the same again with --seed {seed}", err=True)
    with explaining(BrokerError, BuildError, FlashError, FleetError, GatewayError, PublisherError), ExitStack() as undo:
        stage = Stage(
            folder,
            seed=seed,
            boards=boards,
            devices=devices,
            rate=rate,
            confirm=confirm,
            broker=broker,
            store=store,
            verify=verify,
        )
        undo.callback(stage.close)
        stage.start()
        show = undo.enter_context(_Progress(seconds))
        result = soak(stage, schedule, seconds=seconds, drain_seconds=drain, say=show.say, progress=show.at)
    _report(result, seconds, seed, as_json)
    if not result.outcome.good:
        sys.exit(Exit.FOUND)


class _Progress(ExitStack):
    """Progress on stderr: a bar on a terminal, a line per fault elsewhere."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        length = round(_MILLISECONDS * seconds)
        self._bar = click.progressbar(length=length, label="soaking", file=sys.stderr) if sys.stderr.isatty() else None
        self._shown = 0
        if self._bar is not None:
            self.enter_context(self._bar)

    def at(self, seconds: float) -> None:
        """Show the progress."""
        if self._bar is not None:
            now = round(_MILLISECONDS * seconds)
            self._bar.update(now - self._shown)
            self._shown = now

    def say(self, text: str) -> None:
        """Print an event."""
        if self._bar is None:
            click.echo(text, err=True)


def _table(result: Result, seconds: float, seed: int) -> dict[str, Any]:
    faults = {kind: result.faults[kind] for kind in KINDS}
    return {
        **asdict(result.outcome),
        "faults": faults,
        "skipped": result.skipped,
        "restarts": result.restarts,
        "seed": seed,
        "seconds": seconds,
    }


def _report(result: Result, seconds: float, seed: int, as_json: bool) -> None:
    table = _table(result, seconds, seed)
    if as_json:
        print_json(table)
        return
    outcome = result.outcome
    click.echo(f"{sum(result.faults.values())} faults: {', '.join(f'{k} {n}' for k, n in table['faults'].items())}")
    for kind, reason in result.skipped.items():
        click.echo(f"not always done: {kind}: {reason}")
    click.echo(f"made {outcome.made} reports, stored {outcome.stored}, excused {outcome.excused}, void {outcome.void}")
    click.echo(
        f"lost {outcome.lost}, counted twice {outcome.double_counted}, altered {outcome.altered}, "
        f"honest and exposed {outcome.honest_exposed}"
    )
    for line in outcome.missing:
        click.echo(f"missing: {line}")
