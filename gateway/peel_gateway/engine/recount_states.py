# SPDX-License-Identifier: MIT
"""Recount of the statistical tests: run them again from the log, and compare with checkpoints and exposures.

A pardon ends a *stretch*: afterwards the device is judged as if it were new. Each stretch is judged on its own. States are large, so
devices are judged in portions that fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.model.exposure import AuditEntry
from peel_gateway.model.grouping import up_to
from peel_gateway.model.tables import DeviceTestTable, Difference, GapTable, LogTable, StoredState
from peel_gateway.screening.decode_context import DeviceSource
from peel_gateway.screening.device_tests import held_against, make_e_process, replay, select, starts
from peel_gateway.storage.store import Inspection

__all__ = ["StateCheck", "portions"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Events = tuple[LogTable, GapTable]

_COPIES = 4
"""Copies of a state in memory: computed, stored, and two for the comparison."""


def portions(kept: StoredState, registry: DeviceSource, alpha: float, cache_bytes: int) -> Iterator[Ints]:
    """Yield the devices to judge in portions whose states fit into `cache_bytes` bytes; at least one portion, which may be empty."""
    pardoned = np.array([entry.device for entry in kept.pardons], np.int64)
    devices = np.union1d(kept.played, pardoned)
    each = _COPIES * sum(make_e_process(profile, alpha).state_bytes for profile in registry.keyring.profiles)
    some = max(1, cache_bytes // max(1, each))
    for begin in range(0, max(1, len(devices)), some):
        yield devices[begin : begin + some]


class StateCheck:
    """Finds checkpoints that differ from the log, and devices that the log exposes and the store does not, or the reverse.

    It checks only `devices` (ascending) and skips events of others.
    """

    def __init__(self, shown: Inspection, devices: Ints, registry: DeviceSource, alpha: float) -> None:
        self._checks: list[_Present | _Ended] = []
        device_tests, bases = shown.device_tests(devices), shown.bases(devices)
        stretches = list(_ended_stretches(shown.kept, devices))
        for profile in registry.keyring.profiles:
            self._checks.append(_Present(shown.kept, device_tests, bases, profile, alpha))
            self._checks += [_Ended(shown.kept, profile, alpha, stretch) for stretch in stretches]

    def add(self, log: LogTable, gaps: GapTable) -> None:
        """Play events."""
        for check in self._checks:
            check.add((log, gaps))

    def differences(self) -> Iterator[Difference]:
        """Yield the differences from the log."""
        for check in self._checks:
            yield from check.differences()


class _Table:
    """The bets of one profile on some devices (sorted ids)."""

    def __init__(self, profile: Profile, alpha: float, devices: Ints, begins: DeviceTestTable | None = None) -> None:
        self.devices = devices
        self._profile, self._bets = profile, make_e_process(profile, alpha)
        self.states = self.start(begins) if begins else self._bets.new_states(len(devices))
        self._over = self._bets.over(self.states)

    def start(self, stored: DeviceTestTable) -> npt.NDArray[np.uint8]:
        """Return these devices' states from a table."""
        return starts(stored, self._profile, self.devices, self._bets)

    def rows(self, table: LogTable | GapTable) -> Ints:
        """Return the row of each event's device."""
        return np.searchsorted(self.devices, table.device)

    def mine(self, events: Events) -> Events:
        """Return the events of these devices under this profile."""
        return select(events, lambda each: (each.profile == self._profile.id) & np.isin(each.device, self.devices))

    def play(self, events: Events) -> None:
        """Play events of these devices, except of those whose tests have ended."""
        going_on = select(events, lambda each: ~self._over[self.rows(each)])
        self._over |= replay(self._profile, self._bets, self.devices, self.states, *going_on) >= 0

    @property
    def convicted(self) -> set[int]:
        """Devices that the log exposes."""
        return set(self.devices[self._over].tolist())


class _Present:
    """Checks devices since their last pardon. Each has a checkpoint from its first event on."""

    def __init__(
        self, kept: StoredState, device_tests: DeviceTestTable, bases: DeviceTestTable, profile: Profile, alpha: float
    ) -> None:
        self._kept = kept
        mine = device_tests.profile == profile.id
        self._table = _Table(profile, alpha, device_tests.device[mine], bases)
        self._mark, self._stored = device_tests.arrival[mine], self._table.start(device_tests)
        last = {entry.device: entry.last_exposure for entry in kept.pardons}
        self._exposed = _convictions(kept, profile, alpha, last, {})
        self._compared, self._differs = np.zeros((2, len(self._mark)), np.bool_)

    def add(self, events: Events) -> None:
        """Play events up to each device's checkpoint, compare the states, and play the rest."""
        table = self._table
        events = table.mine(held_against(self._kept.devices, events))
        table.play(select(events, lambda each: each.arrival <= self._mark[table.rows(each)]))
        rest = select(events, lambda each: each.arrival > self._mark[table.rows(each)])
        passed = np.zeros(len(self._mark), np.bool_)
        passed[np.concatenate([table.rows(each) for each in rest])] = True
        self._compare(passed & ~self._compared)
        table.play(rest)

    def _compare(self, rows: Bools) -> None:
        self._differs[rows] = (self._table.states[rows] != self._stored[rows]).any(axis=1)
        self._compared |= rows

    def differences(self) -> Iterator[Difference]:
        """Yield the differences from the log."""
        self._compare(~self._compared)
        devices, convicted = self._kept.devices, self._table.convicted
        differing = set(self._table.devices[self._differs].tolist())
        for device in sorted(differing - self._exposed):  # with another alpha its tests may have ended at another event
            yield Difference("test_state", f"{device:08x}", "a state", "another one")
        for device in sorted(convicted & set(devices.device[devices.withdrawn == 0].tolist())):
            yield Difference("device", f"{device:08x}", "counts", "its statistics withdraw it")
        for device in sorted((self._exposed & set(self._table.devices.tolist())) - convicted):
            yield Difference("device", f"{device:08x}", "exposed by statistics", "its statistics do not")


@dataclass(frozen=True)
class _Stretch:
    """Events of devices between two pardons, or before the first."""

    devices: Ints
    """Sorted."""
    after: Ints
    upto: Ints
    """Arrivals that bound each device's events."""
    exposures_after: Mapping[int, int]
    exposures_upto: Mapping[int, int]


def _ended_stretches(kept: StoredState, devices: Ints) -> Iterator[_Stretch]:
    """Yield the first, second, ... ended stretch of devices without pruned events."""
    pardons: dict[int, list[AuditEntry]] = {}
    among = set(devices.tolist())
    for entry in kept.pardons:
        if entry.device in among:
            pardons.setdefault(entry.device, []).append(entry)
    for device in np.unique(kept.pruned.device).tolist():
        pardons.pop(device, None)
    for place in range(max(map(len, pardons.values()), default=0)):
        ended = {device: entries for device, entries in sorted(pardons.items()) if len(entries) > place}
        before = {device: entries[place - 1] for device, entries in ended.items() if place}
        yield _Stretch(
            np.array(list(ended), np.int64),
            np.array([before[device].arrival if place else 0 for device in ended], np.int64),
            np.array([entries[place].arrival for entries in ended.values()], np.int64),
            {device: entry.last_exposure for device, entry in before.items()},
            {device: entries[place].last_exposure for device, entries in ended.items()},
        )


class _Ended:
    """Checks devices in a stretch that a pardon has ended."""

    def __init__(self, kept: StoredState, profile: Profile, alpha: float, stretch: _Stretch) -> None:
        self._stretch = stretch
        self._table = _Table(profile, alpha, stretch.devices)
        found = _convictions(kept, profile, alpha, stretch.exposures_after, stretch.exposures_upto)
        self._exposed = found & set(stretch.devices.tolist())

    def add(self, events: Events) -> None:
        """Play the events of the stretch."""
        devices, after, upto = self._stretch.devices, self._stretch.after, self._stretch.upto
        events = select(events, lambda each: up_to(devices, upto, each.device, each.arrival))
        self._table.play(
            self._table.mine(select(events, lambda each: ~up_to(devices, after, each.device, each.arrival)))
        )

    def differences(self) -> Iterator[Difference]:
        """Yield devices that the store exposed and the log does not, or the reverse."""
        convicted = self._table.convicted
        for device in sorted(convicted ^ self._exposed):
            said = ("not exposed", "exposed")
            stored = f"{said[device not in convicted]} before a pardon"
            yield Difference("device", f"{device:08x}", stored, said[device in convicted])


def _convictions(
    kept: StoredState, profile: Profile, alpha: float, after: Mapping[int, int], upto: Mapping[int, int]
) -> set[int]:
    """Return devices with an exposure by statistics at this alpha or a stricter one, with an id within bounds."""
    return {
        each.device
        for each in kept.convictions
        if each.profile == profile.id
        and each.evidence["alpha"] <= alpha
        and after.get(each.device, 0) < each.id <= upto.get(each.device, each.id)
    }
