# SPDX-License-Identifier: MIT
"""The kinds of faults. A fault begins when its context is entered, and is repaired when it is left."""

from __future__ import annotations

import math
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress

from peel_research.soak.errors import CannotError
from peel_research.soak.schedule import Fault
from peel_research.soak.stage import Stage
from peel_research.soak.stores import ServerStore
from peel_research.soak.weather import Weather
from peel_tools.servers.gateway import GatewayProcess
from peel_tools.servers.postgres import PostgresServer

__all__ = ["DAMAGES", "wrong_by"]

_CLOCK_ENDS = 2.0**32
"""Unix seconds: in 2106."""
_SLOWEST_SECONDS = 0.3
_ROOM_BYTES = 65_536

Damage = Callable[[Stage, Fault], AbstractContextManager[None]]


def _gateway(stage: Stage, fault: Fault) -> GatewayProcess:
    """The one that a fault is about."""
    return stage.gateways[fault.target % len(stage.gateways)]


@contextmanager
def _gateway_kill(stage: Stage, fault: Fault) -> Iterator[None]:
    gateway = _gateway(stage, fault)
    stage.unwanted.add(gateway)
    gateway.kill()
    yield
    stage.unwanted.remove(gateway)


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
    gateway = _gateway(stage, fault)
    return _frozen(lambda: gateway.pid)


def _broker_freeze(stage: Stage, fault: Fault) -> AbstractContextManager[None]:
    return _frozen(lambda: stage.broker.pid)


@contextmanager
def _disk_full(stage: Stage, fault: Fault) -> Iterator[None]:
    """The kernel lets the gateway's files grow to a small size and no further: no special rights, and no other process suffers."""
    gateway = _gateway(stage, fault)
    pid = gateway.pid
    if pid is None:
        raise CannotError("the gateway is not running")
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (round(_ROOM_BYTES * fault.amount), hard))
    yield
    if gateway.pid == pid:
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


def _server(stage: Stage) -> PostgresServer:
    if not isinstance(stage.store, ServerStore):
        raise CannotError("a file has no server")
    return stage.store.server


@contextmanager
def _database_kill(stage: Stage, fault: Fault) -> Iterator[None]:
    server = _server(stage)
    server.kill()
    yield
    server.start()


@contextmanager
def _database_freeze(stage: Stage, fault: Fault) -> Iterator[None]:
    processes = _server(stage).processes()
    for process in processes:
        with suppress(ProcessLookupError):  # that of a connection that has just ended
            os.kill(process, signal.SIGSTOP)
    yield
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)


def wrong_by(amount: float, now: float) -> float:
    """Seconds by which a clock is wrong: from one to decades, evenly by their logarithm, behind or ahead.

    Every fifth goes all the way: to 1970, where a clock begins that nobody has set, or to where one of 32 bits ends.
    """
    farthest = now if amount < 0.5 else _CLOCK_ENDS - now
    return math.copysign(min(farthest, farthest ** (1.25 * abs(2 * amount - 1))), amount - 0.5)


@contextmanager
def _clock_step(stage: Stage, fault: Fault) -> Iterator[None]:
    if not stage.clock.settable:
        raise CannotError("libfaketime is not installed. On Debian, as root: apt-get install faketime")
    stage.clock.set(wrong_by(fault.amount, time.time()))
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
    "database_lock": lambda stage, fault: stage.store.locked(),
    "database_kill": _database_kill,
    "database_freeze": _database_freeze,
    "clock_step": _clock_step,
    "power_cut": _power_cut,
    "provision_again": _provision_again,
    "flash_erase": _flash_erase,
    "revoke": _revoke,
}
