# SPDX-License-Identifier: MIT
"""What each kind of fault does to the stage: it begins when its context is entered and is healed when that is left."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress

from peel_tools.soak.schedule import Fault
from peel_tools.soak.stage import Stage
from peel_tools.soak.weather import Weather

__all__ = ["DAMAGES", "CannotError"]

_LOCK_SECONDS = 1.0
_DAY_SECONDS = 86_400.0
_SLOWEST_SECONDS = 0.3
_ROOM_BYTES = 65_536

Damage = Callable[[Stage, Fault], AbstractContextManager[None]]


class CannotError(Exception):
    """A fault that cannot be done now, or not on this machine; the message says why. The run goes on without it."""


@contextmanager
def _gateway_kill(stage: Stage, fault: Fault) -> Iterator[None]:
    stage.gateway_wanted = False
    stage.gateway.kill()
    yield
    stage.gateway_wanted = True


@contextmanager
def _frozen(pid: Callable[[], int | None]) -> Iterator[None]:
    """Stop a process, and let the same one go on."""
    found = pid()
    if found is None:
        raise CannotError("the process is not running")
    os.kill(found, signal.SIGSTOP)
    yield
    if pid() == found:
        os.kill(found, signal.SIGCONT)


def _gateway_freeze(stage: Stage, fault: Fault) -> AbstractContextManager[None]:
    return _frozen(lambda: stage.gateway.pid)


def _broker_freeze(stage: Stage, fault: Fault) -> AbstractContextManager[None]:
    return _frozen(lambda: stage.broker.pid)


@contextmanager
def _disk_full(stage: Stage, fault: Fault) -> Iterator[None]:
    """The kernel lets the gateway's files grow to a small size and no further: no special rights, and no other process suffers."""
    pid = stage.gateway.pid
    if pid is None:
        raise CannotError("the gateway is not running")
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (round(_ROOM_BYTES * fault.amount), hard))
    yield
    if stage.gateway.pid == pid:
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def _broker_kill(stage: Stage, fault: Fault) -> Iterator[None]:
    stage.broker.strike()
    yield
    stage.broker.start()


@contextmanager
def _broker_forget(stage: Stage, fault: Fault) -> Iterator[None]:
    stage.broker.strike()
    stage.broker.forget()
    yield
    stage.broker.start()


@contextmanager
def _cut(*lines: Weather) -> Iterator[None]:
    for line in lines:
        line.cut()
    yield
    for line in lines:
        line.heal()


@contextmanager
def _slow(amount: float, *lines: Weather) -> Iterator[None]:
    for line in lines:
        line.delay = _SLOWEST_SECONDS * amount
    yield
    for line in lines:
        line.heal()


@contextmanager
def _database_lock(stage: Stage, fault: Fault) -> Iterator[None]:
    holder = sqlite3.connect(stage.gateway.store_path, isolation_level=None, timeout=_LOCK_SECONDS)
    try:
        holder.execute("BEGIN IMMEDIATE")
        yield
        holder.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        raise CannotError(f"the database cannot be locked: {error}") from None
    finally:
        holder.close()


@contextmanager
def _clock_step(stage: Stage, fault: Fault) -> Iterator[None]:
    if not stage.clock.settable:
        raise CannotError("libfaketime is not installed. On Debian, as root: apt-get install faketime")
    stage.clock.set(_DAY_SECONDS * (2 * fault.amount - 1))
    yield
    stage.clock.set(0.0)


@contextmanager
def _power_cut(stage: Stage, fault: Fault) -> Iterator[None]:
    board = stage.boards[fault.target]
    board.cut_power()
    yield
    board.switch_on()


@contextmanager
def _provision_again(stage: Stage, fault: Fault) -> Iterator[None]:
    board = stage.boards[fault.target]
    board.provision_again()
    yield
    board.switch_on()


@contextmanager
def _flash_erase(stage: Stage, fault: Fault) -> Iterator[None]:
    board = stage.boards[fault.target]
    board.erase()
    yield
    board.switch_on()


@contextmanager
def _revoke(stage: Stage, fault: Fault) -> Iterator[None]:
    board = stage.boards[fault.target]
    board.revoke()
    yield
    board.replace()
    board.switch_on()


DAMAGES: Mapping[str, Damage] = {
    "gateway_kill": _gateway_kill,
    "gateway_freeze": _gateway_freeze,
    "disk_full": _disk_full,
    "broker_kill": _broker_kill,
    "broker_freeze": _broker_freeze,
    "broker_forget": _broker_forget,
    "device_line_cut": lambda stage, fault: _cut(stage.board_line, stage.crowd_line),
    "device_line_slow": lambda stage, fault: _slow(fault.amount, stage.board_line, stage.crowd_line),
    "gateway_line_cut": lambda stage, fault: _cut(stage.gateway_line),
    "gateway_line_slow": lambda stage, fault: _slow(fault.amount, stage.gateway_line),
    "database_lock": _database_lock,
    "clock_step": _clock_step,
    "power_cut": _power_cut,
    "provision_again": _provision_again,
    "flash_erase": _flash_erase,
    "revoke": _revoke,
}
