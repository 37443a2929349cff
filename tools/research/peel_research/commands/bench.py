# SPDX-License-Identifier: MIT
"""``peel bench``: figures that anyone can print again."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from peel_gateway.exits import Exit
from peel_gateway.printing import Group, Stopped, json_option, print_json
from peel_tools.servers.broker import BROKERS

_SOURCES = Path(__file__).resolve().parents[4] / "c_core"
_NEEDS_CHECKOUT = (
    "this benchmark is not part of the installed package. Clone the project's repository, run "
    "`scripts/setup base test firmware` in it, and use its `.venv/bin/peel`."
)


@click.group(cls=Group)
def bench() -> None:
    """Measure sizes and speed. Times depend on the machine; ratios and emulated cycles hardly do."""


def _print(figures: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(figures)
        return
    for key, value in figures.items():
        click.echo(f"{key:>26}  {value}")


def _need(module: str, remedy: str) -> None:
    """Stop before the measurement if a module is missing that it needs later."""
    if find_spec(module) is None:
        raise Stopped(f"{module} is not installed. Run: {remedy}", Exit.MISSING)


def _measure_in_steps(name: str) -> dict[str, Any]:
    """Run a long benchmark with a progress bar."""
    benchmark = import_module(name)
    with click.progressbar(length=benchmark.FULL.steps, label="measuring", file=sys.stderr) as bar:
        figures: dict[str, Any] = benchmark.measure(on_progress=lambda _: bar.update(1))
    return figures


@bench.command()
@click.option("-k", default=252, show_default=True, help="Number of attributes.")
@json_option
def core(k: int, as_json: bool) -> None:
    """Measure encoding and sealing on this machine against the Python reference; code size and stack on a Cortex-M0+. Needs a checkout."""
    if not _SOURCES.is_dir():
        raise Stopped(_NEEDS_CHECKOUT, Exit.MISSING)
    _print(import_module("peel_research.bench.core").measure(k), as_json)


@bench.command()
@json_option
def device(as_json: bool) -> None:
    """Count the cycles of a report on an emulated RP2040, and those of AES and SHA-256. Needs a checkout."""
    try:
        benchmark = import_module("peel_hil.bench_device")
    except ModuleNotFoundError as error:
        if error.name != "peel_hil":
            raise
        raise Stopped(_NEEDS_CHECKOUT, Exit.MISSING) from None
    _print(benchmark.measure(), as_json)


@bench.command()
@json_option
def gateway(as_json: bool) -> None:
    """Measure reports per second through screening and SQLite; reports until a biased coin is exposed."""
    _print(import_module("peel_research.bench.gateway").measure(), as_json)


@bench.command()
@click.option("--rounds", default=5, show_default=True, help="Rounds of 34,000 reports; the median is printed.")
@json_option
def engine(rounds: int, as_json: bool) -> None:
    """Measure CPU time per report from message to commit, by stage, and of opening and storing alone. Takes minutes."""
    _print(import_module("peel_research.bench.engine").measure(rounds=rounds), as_json)


@bench.command()
@click.option(
    "--reports",
    multiple=True,
    type=click.IntRange(1000),
    help="Reports; repeat it for several sizes. By default 10^5 to 10^8.",
)
@click.option(
    "--devices",
    multiple=True,
    type=click.IntRange(10),
    help="Devices; repeat it for several sizes. By default 10^2 to 10^5.",
)
@click.option(
    "--store",
    type=click.Choice(["sqlite", "postgres"]),
    default="sqlite",
    show_default=True,
    help="Database; a PostgreSQL server is started for it.",
)
@json_option
def answers(reports: tuple[int, ...], devices: tuple[int, ...], store: str, as_json: bool) -> None:
    """Measure CPU time and memory of each question of page and API, on sums that are written directly. 10^8 reports take minutes each."""
    benchmark = import_module("peel_research.bench.answers")
    many, of = reports or benchmark.REPORTS, devices or benchmark.DEVICES
    with click.progressbar(length=len(many) * len(of), label="measuring", file=sys.stderr) as bar:
        figures = benchmark.measure(many, of, store=store, on_progress=lambda _: bar.update(1))
    _print(figures, as_json)


@bench.command()
@json_option
def receipts(as_json: bool) -> None:
    """Measure the costs of receipts: bytes on the air, time in the gateway, writes to a device's flash."""
    _print(import_module("peel_research.bench.receipts").measure(), as_json)


@bench.command()
@click.option("--seconds", default=10.0, show_default=True, help="Duration of each of the three phases.")
@json_option
def hostile(seconds: float, as_json: bool) -> None:
    """Measure how long 50 honest devices wait for receipts: undisturbed, and while one device floods statuses, then refused frames."""
    _print(import_module("peel_research.bench.hostile").measure(seconds=seconds), as_json)


@bench.command()
@click.option("--messages", default=70_000, show_default=True, help="Messages in the queue.")
@click.option("-k", default=16, show_default=True, help="Number of attributes.")
@click.option(
    "--broker", type=click.Choice(list(BROKERS)), default="mosquitto", show_default=True, help="Broker to use."
)
@click.option(
    "--verified",
    is_flag=True,
    help="Measure the whole exchange of devices with verified coins instead, in CPU time of the gateway; with mosquitto.",
)
@json_option
def ingest(messages: int, k: int, broker: str, verified: bool, as_json: bool) -> None:
    """Measure a gateway that empties a full queue of a real broker; with mosquitto also subscribers that only count (paho, gmqtt)."""
    if verified:
        _print(import_module("peel_research.bench.verified").measure(), as_json)
        return
    if broker == "mosquitto":
        _need("gmqtt", "pip install gmqtt")
    _print(import_module("peel_research.bench.ingest").measure(messages=messages, k=k, kind=broker), as_json)


@bench.command()
@click.option("--seconds", default=60.0, show_default=True, help="Duration of each of the three rates.")
@click.option("--batch-seconds", type=float, help="The gateway's setting batch.seconds; by default its default.")
@json_option
def disk(seconds: float, batch_seconds: float | None, as_json: bool) -> None:
    """Measure bytes written and stored per report at 1, 10 and 1000 reports/s, and the wait until the commit. Takes minutes."""
    benchmark = import_module("peel_research.bench.disk")
    with click.progressbar(length=round(len(benchmark.RATES) * seconds), label="measuring", file=sys.stderr) as bar:
        figures = benchmark.measure(
            seconds=seconds,
            batch_seconds=batch_seconds,
            on_progress=lambda passed: bar.update(round(passed) - bar.pos),
        )
    _print(figures, as_json)


@bench.command()
@json_option
def growth(as_json: bool) -> None:
    """Measure throughput and memory by attributes, devices, log and exposures; a gateway with a million devices. Takes minutes."""
    _print(_measure_in_steps("peel_research.bench.growth"), as_json)


@bench.command()
@json_option
def peers(as_json: bool) -> None:
    """Compare kRR and local hashing with other libraries (pure-ldp, multi-freq-ldpy), and bits per report with Prio3."""
    benchmark = import_module("peel_research.bench.peers")
    try:
        _print(benchmark.measure(), as_json)
    except benchmark.PeersMissingError as error:
        raise Stopped(str(error), Exit.MISSING) from None


@bench.command()
@json_option
def scale(as_json: bool) -> None:
    """Measure 1, 2 and 4 workers on PostgreSQL with a million devices: throughput, CPU time, database work. Takes minutes."""
    _need("psycopg", "pip install 'peel-telemetry[postgres]'")
    _print(_measure_in_steps("peel_research.bench.scale"), as_json)


@bench.command()
@click.option("--epsilon", default=1.0, show_default=True, help="Budget of one report.")
@click.option("--interval", default=60.0, show_default=True, help="Seconds between reports.")
@click.option("--reading", default=21.3, show_default=True, help="The devices' constant reading.")
@click.option("--low", default=-40.0, show_default=True, help="Lower end of the range.")
@click.option("--high", default=85.0, show_default=True, help="Upper end of the range.")
@click.option("--devices", default=20, show_default=True, help="Number of simulated devices.")
@json_option
def privacy(as_json: bool, **given: Any) -> None:
    """Measure what a day, a month and a year of reports reveal about a constant reading, with frames from the real core."""
    _print(import_module("peel_research.bench.privacy").measure(**given, stretches=["day", "month", "year"]), as_json)


@bench.command()
@json_option
def promise(as_json: bool) -> None:
    """Measure the harm of an omniscient insider over a liar's, reports until exposure, and honest devices exposed.

    Takes about nine minutes of CPU time, on all cores.
    """
    _print(import_module("peel_research.promise.measure").measure(), as_json)
