# SPDX-License-Identifier: MIT
"""`peel simulate`: run a simulated fleet against a real broker."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click

from peel_core import Secret
from peel_gateway.exits import Exit
from peel_gateway.fleet.folder import SIMULATION_FILE, Fleet, FleetError
from peel_gateway.printing import explaining, in_two_columns, json_option, print_json
from peel_tools.profiles.dataset import DatasetError
from peel_tools.simulation.attackers import ATTACKS, parse_attack
from peel_tools.simulation.publisher import BrokerAddress, PublisherError
from peel_tools.simulation.runner import Progress, Simulation
from peel_tools.simulation.session import Plan, Session, true_means
from peel_tools.simulation.truth import TruthError

__all__ = ["attack_option", "simulate", "stopping_on_signals"]

_DRAIN_SECONDS = 30.0
_CONFIRM_SECONDS = 30.0
_SILENT_SECONDS = 2.0  # without a receipt so far there is most likely no gateway


def _attack_epilog() -> str:
    rows = []
    for attack in ATTACKS.values():
        what = "devices" if attack.by_device else "reports"
        rows.append((f"{attack.name:<14} {what} {attack.layer_label or '-':<10}", attack.help))
    return "\b\nAttacks: kind, what its share counts, the layer that must expose it\n" + in_two_columns(rows)


def _parse_attacks(ctx: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, float]:
    try:
        return dict(parse_attack(value) for value in values)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


attack_option = click.option(
    "--attack",
    "shares",
    multiple=True,
    metavar="KIND=SHARE",
    callback=_parse_attacks,
    help="Attackers of a kind (`peel simulate --help` lists them) and their share, such as stuck=0.05; repeat for more.",
)


def _password(path: Path | None) -> Secret | None:
    if path is None:
        return None
    if path.stat().st_mode & 0o077:
        raise click.BadParameter(f"{path} can be read by others; run chmod 600 {path}", param_hint="--password-file")
    return Secret(path.read_bytes().strip())


def stopping_on_signals(undo: ExitStack, simulation: Simulation) -> None:
    """Let the first Ctrl-C (or SIGTERM) end the run in order, and a second one end it at once."""

    def stop(number: int, frame: object) -> None:
        simulation.stop()
        for each, before in handlers.items():
            signal.signal(each, before)

    handlers = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    undo.callback(lambda: [signal.signal(each, before) for each, before in handlers.items()])


@click.command(epilog=_attack_epilog())
@click.option(
    "--fleet",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default="fleet",
    show_default=True,
    help="Folder of a simulated fleet (`peel fleet init --simulated`).",
)
@click.option(
    "--broker",
    default="127.0.0.1:1883",
    show_default=True,
    help="Address of the broker: host:port, mqtt://host:port or mqtts://host:port.",
)
@click.option("--user", default="", help="User name for the broker.")
@click.option(
    "--password-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with the password for the broker.",
)
@click.option(
    "--ca", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="PEM file with the broker's CA."
)
@click.option(
    "--devices", type=click.IntRange(1), help="Number of devices that take part; by default all of the fleet."
)
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), default=100.0, show_default=True, help="Reports per second."
)
@click.option("--reports", type=click.IntRange(1), help="Stop after this many reports.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="Stop after this time.")
@attack_option
@click.option(
    "--csv",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File with readings, in columns with the names of the attributes.",
)
@click.option("--seed", type=click.IntRange(0), help="Seed of a repeatable run; random by default.")
@click.option(
    "--burst",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Reports that a device sends in one message.",
)
@click.option(
    "--connections",
    type=click.IntRange(1, 500),
    default=4,
    show_default=True,
    help="MQTT connections that the devices share.",
)
@click.option(
    "--power-cut",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Probability of a power cut after each message of a device.",
)
@click.option(
    "--confirm",
    type=click.Choice(["gateway", "broker"]),
    default="gateway",
    show_default=True,
    help="A device forgets a report when the gateway has confirmed it, or when the broker has acknowledged it.",
)
@json_option
def simulate(
    folder: Path,
    broker: str,
    user: str,
    password_file: Path | None,
    ca: Path | None,
    devices: int | None,
    rate: float,
    reports: int | None,
    seconds: float | None,
    shares: dict[str, float],
    csv: Path | None,
    seed: int | None,
    burst: int,
    connections: int,
    power_cut: float,
    confirm: str,
    as_json: bool,
) -> None:
    """Run a simulated fleet, attackers included, against a broker.

    Devices respect the profile's quota, encode with the real core and publish at QoS 1. FLEET/simulation.sqlite is their flash and records
    the truth: numbers used, readings, acknowledgements and confirmations. The next run continues from it, and first resends unconfirmed
    reports. Ctrl-C stops in order.
    """
    plan = Plan(
        rate=rate, shares=shares, seed=seed, devices=devices, burst=burst, connections=connections, power_cut=power_cut, csv=csv,
        confirm=confirm,
    )  # fmt: skip
    with explaining(FleetError, PublisherError, DatasetError, TruthError, ValueError):
        address = BrokerAddress.parse(broker, ca=ca, user=user, password=_password(password_file))
        show = _Progress(reports, seconds)
        with ExitStack() as undo:
            fleet = undo.enter_context(_only_simulation(folder))
            session = Session(fleet, address, fleet.folder / SIMULATION_FILE, plan, on_progress=show)
            undo.enter_context(session)
            undo.enter_context(show)
            stopping_on_signals(undo, session.simulation)
            for name in session.unplayed:
                click.echo(
                    f"{name}={shares[name]:g}: no device plays it. A device keeps its first role: give a larger share, or add "
                    f"devices with `peel fleet add {folder} --count N`",
                    err=True,
                )
            session.simulation.run(reports=reports, seconds=seconds)
            drained = session.simulation.drain(_DRAIN_SECONDS)
            session.simulation.confirm(_CONFIRM_SECONDS if session.simulation.receipts else _SILENT_SECONDS)
            _report(session, as_json)
    if not drained:
        click.echo(
            "Error: the broker has not acknowledged everything; run the command again to send the rest",
            err=True,
        )
        sys.exit(Exit.FOUND)


@contextmanager
def _only_simulation(folder: Path) -> Iterator[Fleet]:
    """Open a simulated fleet for one process at a time: a second one would use the same report numbers."""
    fleet = Fleet(folder)
    if not fleet.simulated:
        raise FleetError(
            f"{folder}: is a fleet of boards. Simulated devices would use their report numbers, and the boards would be exposed. "
            "Make a simulated fleet: `peel fleet init FOLDER --name NAME --simulated`, then `peel fleet add FOLDER --count N`"
        )
    if not (folder / SIMULATION_FILE).exists():
        raise FleetError(
            f"{folder / SIMULATION_FILE}: is missing. It had the report numbers that the simulated devices used, and using one again "
            "exposes a device. Restore the file, or make another simulated fleet"
        )
    lock = os.open(folder / ".simulating", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield fleet
    except BlockingIOError:
        raise FleetError(f"{folder}: another `peel simulate` runs with this fleet; stop that one first") from None
    finally:
        os.close(lock)


class _Progress(ExitStack):
    """A progress bar on stderr, if that is a terminal and the end of the run is known."""

    def __init__(self, reports: int | None, seconds: float | None) -> None:
        super().__init__()
        self._by_time = reports is None
        length = reports if reports is not None else round(1000 * seconds) if seconds else None
        self._bar = (
            click.progressbar(length=length, label="publishing", file=sys.stderr)
            if length and sys.stderr.isatty()
            else None
        )
        self._at = 0
        self._told = False
        if self._bar is not None:
            self.enter_context(self._bar)

    def __call__(self, progress: Progress) -> None:
        if progress.held_back and not self._told:
            self._told = True
            click.echo("the devices wait for their quota, or for approved numbers of verified coins", err=True)
        if self._bar is not None:
            now = round(1000 * progress.seconds) if self._by_time else progress.published
            self._bar.update(now - self._at)
            self._at = now


def _report(session: Session, as_json: bool) -> None:
    progress = session.simulation.progress
    kinds = session.truth.published()
    if as_json:
        table = {
            "published": progress.published,
            "acknowledged": sum(kinds.values()),
            "confirmed": session.truth.confirmed(),
            "unconfirmed_messages": session.simulation.unconfirmed,
            "unopened_reports": session.simulation.unopened,
            "resent_messages": progress.resent,
            "seconds": round(progress.seconds, 3),
            "held_back_by_quota": progress.held_back,
            "by_kind": kinds,
            "unplayed_attacks": session.unplayed,
            "means": {profile.name: true_means(session.truth, profile) for profile in session.profiles},
            "truth": str(session.truth.path),
        }
        print_json(table)
        return
    rate = progress.published / progress.seconds if progress.seconds else 0.0
    click.echo(f"published {progress.published} reports in {progress.seconds:.1f} s ({rate:.0f}/s)")
    if progress.held_back:
        click.echo(
            "the profile's quota, or the audit of verified coins, holds the devices below this rate; more devices, or a larger "
            "quota, allow more"
        )
    click.echo(f"acknowledged so far, by kind: {', '.join(f'{kind} {count}' for kind, count in kinds.items())}")
    click.echo(f"confirmed so far: {session.truth.confirmed()} reports")
    if session.simulation.unconfirmed:
        heard = (
            "a gateway has not confirmed" if session.simulation.receipts else "no gateway is heard, which would confirm"
        )
        click.echo(f"{heard} {session.simulation.unconfirmed} messages; run the command again to send them again")
    if session.simulation.unopened:
        click.echo(
            f"{session.simulation.unopened} reports wait for the end of their time bucket, when their coins are opened; run the "
            "command again to open them"
        )
    click.echo(f"truth: {session.truth.path}")
