# SPDX-License-Identifier: MIT
"""The ``peel`` command. Each area brings its own command or group."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from peel_gateway.exits import Exit
from peel_gateway.printing import Stopped
from peel_tools.lazy_group import LazyGroup

# Set before a command loads numpy. Its matrices are small here, and idle threads of the pool would spin: twice the time of the work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_COMMANDS = {
    "plan": ("peel_tools.commands.plan:plan", "Calculate the accuracy, privacy and costs of a planned fleet."),
    "profile": ("peel_tools.commands.profile:profile", "Make, check and show profiles."),
    "fleet": ("peel_tools.commands.fleet:fleet", "Register, provision and revoke devices."),
    "gateway": ("peel_gateway.commands.gateway:gateway", "Run the gateway; query its estimates and exposures."),
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
