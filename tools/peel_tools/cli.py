# SPDX-License-Identifier: MIT
"""The ``peel`` command: the tables of its commands, each of which is in a module of its own, and what it does about errors."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from peel_gateway.exits import Exit
from peel_gateway.printing import Stopped

# Set before a command loads numpy. Its matrices are small here, and idle threads of the pool would spin: twice the time of the work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_COMMANDS = {
    "plan": ("peel_tools.commands.plan:plan", "Calculate the accuracy, privacy and costs of a planned fleet."),
    "profile": ("peel_tools.commands.profile:profile", "Make, check and show profiles."),
    "fleet": ("peel_tools.cli:fleet", "Register, provision and revoke devices."),
    "gateway": ("peel_gateway.commands.gateway:gateway", "Run the gateway; query its estimates and exposures."),
    "check-evidence": (
        "peel_gateway.commands.evidence:check_evidence",
        "Recompute the verdict of an exposure from a file of `peel gateway exposures --evidence`, and print the proof.",
    ),
    "simulate": (
        "peel_tools.commands.simulate:simulate",
        "Run a simulated fleet, attackers included, against a broker.",
    ),
    "demo": (
        "peel_tools.commands.demo:demo",
        "Run a broker, a gateway and a simulated fleet with attackers on this machine.",
    ),
    "doctor": (
        "peel_tools.commands.doctor:doctor",
        "Check settings, keys, file modes, database, disk, clock, broker and tools; say what to do about each problem.",
    ),
    "device": ("peel_tools.commands.device:device", "Run a device's firmware on this machine."),
    "soak": (
        "peel_research.commands.soak:soak_command",
        "Inject faults into a whole system by a repeatable schedule.",
    ),
    "firmware": ("peel_tools.commands.firmware:firmware", "Build and flash firmware and native modules."),
    "lab": (
        "peel_research.commands.lab:lab",
        "Test Peel's claims on your own data: attacks, other defences, the paper's tables.",
    ),
    "bench": ("peel_research.commands.bench:bench", "Measure sizes and speed."),
}
_FLEET_COMMANDS = {
    "init": ("peel_gateway.commands.fleet:init", "Make a fleet folder with a new master key."),
    "add": ("peel_tools.commands.fleet_bundles:add", "Register devices and write their provisioning bundles."),
    "list": (
        "peel_gateway.commands.fleet:list_devices",
        "List the devices, with what the gateway's database knows of them if there is one.",
    ),
    "revoke": ("peel_gateway.commands.fleet:revoke", "Refuse devices' reports from now on."),
    "unrevoke": ("peel_gateway.commands.fleet:unrevoke", "Accept reports of revoked devices again."),
    "audit": ("peel_gateway.commands.fleet:audit", "List who revoked and unrevoked which device, newest first."),
    "tag": ("peel_gateway.commands.fleet:tag", "Add tags to devices, or remove tags from them."),
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
        "peel_tools.commands.firmware:provision_device",
        "Put the application and DEVICE's bundle onto a board that runs MicroPython.",
    ),
}


class LazyGroup(click.Group):
    """A group defined by a table. It imports a command when it is used, so that each command loads only what it needs.

    Parameters
    ----------
    table : mapping
        Subcommand to its place ("module:attribute") and one line of help, with which its own help begins.
    """

    def __init__(self, *arguments: Any, table: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module, _, attribute = self.table[cmd_name][0].partition(":")
        try:
            command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name != "peel_research":
                raise
            raise Stopped(
                f"peel {cmd_name}: the research tools are not installed. Run: pip install 'peel-telemetry[research]'",
                Exit.MISSING,
            ) from None
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])


_NAMED_WRONGLY = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)
"""Errors about a path that the user gave. Other errors, such as a full disk, may be gone when a service manager restarts a gateway."""


class _Terminated(BaseException):
    """SIGTERM arrived."""


@contextmanager
def _unwinding_on_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind a command as Ctrl-C does, so that it removes its temporary files; some hold keys. Then die of the signal."""

    def unwind(number: int, frame: object) -> None:
        raise _Terminated

    if signal.getsignal(signal.SIGTERM) != signal.SIG_DFL or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _nobody_reads() -> bool:
    """Return whether the other end of standard output is closed, as after `| head`."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


class _Peel(LazyGroup):
    """The command itself. An unexpected error prints a traceback and ends with the code for internal errors.

    An operating system error about a file becomes one line. Commands that can say more about it do so themselves.
    """

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _unwinding_on_sigterm():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, BrokenPipeError) and _nobody_reads():
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the flush at exit must not fail
                ctx.exit(Exit.DONE)
            if isinstance(error, OSError) and (where := error.filename2 or error.filename):
                code = Exit.USAGE if isinstance(error, _NAMED_WRONGLY) else Exit.MISSING
                raise Stopped(f"{where}: {error.strerror}. Check the path and its permissions.", code) from None
            traceback.print_exc()
            ctx.exit(Exit.INTERNAL)


@click.group(cls=_Peel, table=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="peel-telemetry")
def main() -> None:
    """Locally private sensor telemetry that exposes poisoning.

    \b
    peel demo                               the whole system on this machine
    peel demo --csv weather.csv             the same with your own readings
    peel plan --attributes 4 --every 15m --accuracy 5%
                                            how many devices does it take?
    peel fleet init fleet --name greenhouse
                                            start a fleet of your own
    peel doctor                             find problems, and what to do

    Every command has --help, most have --json.
    """


@click.group(cls=LazyGroup, table=_FLEET_COMMANDS)
def fleet() -> None:
    """Register, provision and revoke devices."""
