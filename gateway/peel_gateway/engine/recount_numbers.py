# SPDX-License-Identifier: MIT
"""Recount of numbers: which were used, which are missing, and what the missing ones assign."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from peel_core import Profile, index_many
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.grouping import unique_rows
from peel_gateway.model.tables import Difference, GapTable, Kept, LogTable
from peel_gateway.screening import gaps as screening_gaps
from peel_gateway.screening.roster import Registry
from peel_gateway.screening.seen import NO_HOLES, Seen, enter, unseen, used

__all__ = ["NumberCheck"]

Ints = npt.NDArray[np.int64]
_NONE = np.iinfo(np.int64).max


class NumberCheck:
    """Compares device states with the numbers of the log, as far as the log still has them."""

    def __init__(self, kept: Kept, registry: Registry) -> None:
        devices = kept.devices
        self._devices = devices
        self._keyring = registry.keyring
        self._seen = Seen(devices.low_water, devices.last_number, devices.holes, devices.forgone)
        self._reports = np.zeros(len(devices), np.int64)
        known, place = self._places(kept.past.device)
        np.add.at(self._reports, place, (kept.past.plus + kept.past.minus)[known])
        self._in_time = np.full(len(devices), _NONE)
        """The lowest number that came in time since the last pardon, of those that the log has: gaps above it were settled after that."""
        self._assigns = np.array(
            [profile.id for profile in self._keyring.profiles if mechanism_of(profile).assigns], np.int64
        )
        self._judged = np.ones(len(devices), np.bool_)
        """Whose gaps can be judged: those that only ever had profiles whose numbers assign something."""
        self._note_profiles(kept.past.device, kept.past.profile)
        none = np.zeros(len(devices), np.int64)
        self._so_far = Seen(none, none, np.full(len(devices), NO_HOLES, object), none)
        self._gaps: set[tuple[int, int]] = set()
        self._late: set[tuple[int, int]] = set()

    def add(self, log: LogTable, gaps: GapTable) -> Iterator[Difference]:
        """Add events; yield numbers that are used in the log and not by the device's state, and gaps with a wrong attribute."""
        known, place = self._places(log.device)
        if not known.all():
            yield Difference("seen", "device", "unknown", "in the log")
        np.add.at(self._reports, place, 1)
        yield from self._used_twice(place, log.number[known])
        in_time = (log.late[known] == 0) & (log.arrival[known] > self._devices.pardoned[place])
        np.minimum.at(self._in_time, place[in_time], log.number[known][in_time])
        self._note_profiles(log.device, log.profile)
        for row in np.flatnonzero(unseen(self._seen, place, log.number[known])).tolist():
            yield Difference("seen", f"{log.device[known][row]:08x}/{log.number[known][row]}", "not used", "in the log")
        late = log.late != 0
        self._late |= set(zip(log.device[late].tolist(), log.number[late].tolist(), strict=True))
        self._gaps |= set(zip(gaps.device.tolist(), gaps.number.tolist(), strict=True))
        yield from self._wrong_attributes(gaps)

    def _used_twice(self, place: Ints, number: Ints) -> Iterator[Difference]:
        """Yield numbers that an earlier report had; no hole is given up here."""
        (at, numbers), where = unique_rows(place, number)
        again = (np.bincount(where, minlength=len(at)) > 1) | ~unseen(self._so_far, at, numbers)
        for row in np.flatnonzero(again).tolist():
            yield Difference(
                "seen", f"{self._devices.device[at[row]]:08x}/{numbers[row]}", "used once", "twice in the log"
            )
        self._so_far = enter(self._so_far, at[~again], numbers[~again], most_holes=2**40)

    def differences(self) -> Iterator[Difference]:
        """Yield devices that have used more or fewer numbers than were logged, gaps that came in time, and what was never settled."""
        devices, count = self._devices, used(self._seen)
        for row, device in enumerate(devices.device.tolist()):
            if count[row] != self._reports[row]:
                yield Difference(
                    "seen", f"{device:08x}", f"{count[row]} numbers used", f"{self._reports[row]} in the log"
                )
            if devices.settled[row] > devices.last_number[row]:
                yield Difference(
                    "gap", f"{device:08x}", f"settled up to {devices.settled[row]}", f"last {devices.last_number[row]}"
                )
            yield from self._unsettled(row, device)
        yield from self._came_in_time()

    def _came_in_time(self) -> Iterator[Difference]:
        asked = np.array(sorted(self._gaps - self._late), np.int64).reshape(-1, 2)
        known, place = self._places(asked[:, 0])
        number = asked[known][:, 1]
        came = ~unseen(self._seen, place, number) & (number > self._devices.low_water[place])
        for device, missing in asked[known][came].tolist():
            yield Difference("gap", f"{device:08x}/{missing}", "missing", "in the log, in time")

    def _unsettled(self, row: int, device: int) -> Iterator[Difference]:
        """Numbers that must have been settled as missing, and were not: the last ones, and those whose gaps the log still has."""
        devices = self._devices
        if not self._judged[row] or self._in_time[row] == _NONE:
            return  # of one that was pardoned, and not heard since, nothing is due
        at = slice(row, row + 1)
        _, due = screening_gaps.missing(devices.device[at], self._in_time[at], devices.settled[at], devices.holes[at])
        known = self._keyring.find(np.full(len(due), device), due) >= 0
        for number in due[known].tolist():
            if (device, number) not in self._gaps:
                yield Difference("gap", f"{device:08x}/{number}", "settled", "neither in the log nor missing")

    def _wrong_attributes(self, gaps: GapTable) -> Iterator[Difference]:
        bundle = self._keyring.find(gaps.device, gaps.number)
        for profile in self._keyring.profiles:
            mine = (bundle >= 0) & (gaps.profile == profile.id)
            index = index_many(profile, gaps.device[mine], self._keyring.keys.of(bundle[mine]), gaps.number[mine])
            for row in np.flatnonzero(index != gaps.index[mine]).tolist():
                device, number, stored = (int(each[mine][row]) for each in (gaps.device, gaps.number, gaps.index))
                if stored not in self._assigned(profile, device, number):
                    yield Difference("gap", f"{device:08x}/{number}", stored, int(index[row]))

    def _assigned(self, profile: Profile, device: int, number: int) -> set[int]:
        """What a number may have assigned: whoever is far ahead uses numbers that a further bundle, with other keys, is given later."""
        keyring = self._keyring
        owner = np.searchsorted(keyring.device_ids, device)
        first, end = np.searchsorted(keyring.owners, [owner, owner + 1])
        former = first + np.flatnonzero(keyring.bundle_first[first:end] <= number)
        index = index_many(profile, np.full(len(former), device), keyring.keys.of(former), np.full(len(former), number))
        return set(index.tolist())

    def _note_profiles(self, device: Ints, profile: Ints) -> None:
        strange = ~np.isin(profile, self._assigns)
        _, place = self._places(device[strange])
        self._judged[place] = False

    def _places(self, device: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
        """Which devices have a state, and its row."""
        known = np.isin(device, self._devices.device)
        return known, np.searchsorted(self._devices.device, device[known])
