# SPDX-License-Identifier: MIT
"""The schedule: which faults begin when, for how long. A function of its seed and nothing else."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["KINDS", "Fault", "Kind", "make_schedule"]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of fault."""

    name: str
    track: str
    """The part that it affects. Faults of one track never overlap; those of different tracks may."""
    shortest: float
    longest: float
    """Seconds from its beginning to its end."""
    text: str
    store: str
    """The only one that it is for; empty where it is for all."""


def _kind(name: str, track: str, shortest: float, longest: float, text: str, store: str = "") -> Kind:
    return Kind(name=name, track=track, shortest=shortest, longest=longest, text=text, store=store)


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        _kind("gateway_kill", "gateway", 0.2, 3, "the gateway's process gets SIGKILL, and is started again"),
        _kind("gateway_freeze", "gateway", 0.5, 4, "it gets SIGSTOP, later SIGCONT"),
        _kind("disk_full", "gateway", 1, 4, "the kernel refuses what would enlarge its files (RLIMIT_FSIZE)", "sqlite"),
        _kind("broker_kill", "broker", 0.2, 2, "SIGKILL; what it had not saved is gone"),
        _kind("broker_freeze", "broker", 0.5, 3, "SIGSTOP, later SIGCONT"),
        _kind("broker_forget", "broker", 0.2, 2, "SIGKILL, and its persistence file is deleted"),
        _kind("device_line_cut", "device line", 0.3, 3, "no device reaches the broker"),
        _kind("device_line_slow", "device line", 1, 4, "every piece of their traffic waits"),
        _kind("gateway_line_cut", "gateway line", 0.3, 3, "the gateway does not reach the broker"),
        _kind("gateway_line_slow", "gateway line", 1, 4, "every piece of its traffic waits"),
        _kind("database_lock", "database", 0.5, 4, "another process holds the database's write lock"),
        _kind("database_kill", "database", 0.2, 2, "all processes of PostgreSQL get SIGKILL", "postgres"),
        _kind("database_freeze", "database", 0.5, 3, "they get SIGSTOP, later SIGCONT", "postgres"),
        _kind(
            "clock_step",
            "clock",
            1,
            5,
            "the gateway's wall clock is wrong by seconds or decades, then right again (libfaketime)",
        ),
        _kind("power_cut", "board", 0.1, 2, "a device's process gets SIGKILL; its flash stays"),
        _kind("provision_again", "board", 0.1, 1, "a fresh bundle for a device, on the same flash"),
        _kind("flash_erase", "board", 0.1, 1, "a device's flash is erased, and a fresh bundle put on it"),
        _kind("revoke", "board", 0.5, 2, "a device is revoked; another one takes its place"),
    )
}

_PAUSE_SECONDS = (0.5, 3.0)


@dataclass(frozen=True, kw_only=True, order=True)
class Fault:
    """One fault of a schedule."""

    at: float
    """Seconds from the beginning."""
    seconds: float
    """Its duration."""
    kind: str
    target: int
    """The number of the device, for a fault of one device."""
    amount: float
    """The strength from 0 to 1, for faults that have one."""

    def __str__(self) -> str:
        return (
            f"{self.at:8.2f} s  {self.kind} for {self.seconds:.2f} s (target {self.target}, amount {self.amount:.2f})"
        )


def make_schedule(seconds: float, seed: int, devices: int, store: str = "sqlite") -> list[Fault]:
    """All faults of a run, in the order in which they begin; each ends before the run does."""
    tracks: dict[str, list[Kind]] = {}
    for kind in KINDS.values():
        if kind.store in ("", store):
            tracks.setdefault(kind.track, []).append(kind)
    faults = [fault for track, kinds in tracks.items() for fault in _track(track, kinds, seconds, seed, devices)]
    return sorted(faults)


def _track(track: str, choice: list[Kind], seconds: float, seed: int, devices: int) -> Iterator[Fault]:
    """The faults of one track: each kind in its turn, the turns shuffled, so that a short run has some of each."""
    draw = random.Random(f"{seed}/{track}")
    at = draw.uniform(*_PAUSE_SECONDS)
    kinds: list[Kind] = []
    while True:
        if not kinds:
            kinds = list(choice)
            draw.shuffle(kinds)
        kind = kinds.pop()
        lasting = draw.uniform(kind.shortest, kind.longest)
        target, amount = draw.randrange(devices), draw.random()
        if at + lasting > seconds:
            return
        yield Fault(at=at, seconds=lasting, kind=kind.name, target=target, amount=amount)
        at += lasting + draw.uniform(*_PAUSE_SECONDS)
