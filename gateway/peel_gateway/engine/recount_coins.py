# SPDX-License-Identifier: MIT
"""Recount of verified coins: held reports and batches agree with each other, and no held report is in the log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from peel_gateway.model.coins import HeldReports
from peel_gateway.model.tables import Difference, LogTable, StoredState

__all__ = ["HeldCheck"]

Ints = npt.NDArray[np.int64]

_NONE = np.iinfo(np.int64).max


class HeldCheck:
    """Finds held reports that no batch allows, or that the log already has."""

    def __init__(self, kept: StoredState) -> None:
        self._coins = kept.coins
        self._held = kept.held_reports
        # Reports of an exposed device are logged as withdrawn, also if they are held already.
        exposed = kept.devices.device[kept.devices.cause != 0]
        self._unlogged = self._held.at(~np.isin(self._held.device, exposed))
        self._keys = set(zip(self._unlogged.device.tolist(), self._unlogged.number.tolist(), strict=True))
        self._devices, self._lowest = _lowest(self._unlogged)

    def add(self, log: LogTable) -> Iterator[Difference]:
        """Add events; yield held reports that are in the log."""
        if not len(self._devices):
            return
        place = np.minimum(np.searchsorted(self._devices, log.device), len(self._devices) - 1)
        # Held numbers are the newest ones of their device: few logged numbers are that high.
        near = np.flatnonzero((self._devices[place] == log.device) & (log.number >= self._lowest[place]))
        for device, number in zip(log.device[near].tolist(), log.number[near].tolist(), strict=True):
            if (device, number) in self._keys:
                yield Difference("held_report", f"{device:08x}/{number}", "held", "in the log")

    def differences(self) -> Iterator[Difference]:
        """Yield held reports and device states that contradict each other."""
        highest: dict[int, int] = {}
        for device, number in zip(self._held.device.tolist(), self._held.number.tolist(), strict=True):
            highest[device] = max(number, highest.get(device, 0))
            if why := self._refusal(device, number):
                yield Difference("held_report", f"{device:08x}/{number}", "held", why)
        for device, number in sorted(highest.items()):
            state = self._coins.get(device)
            if state is not None and state.reported < number:
                yield Difference("coin", f"{device:08x}/reported", state.reported, f"at least {number}")

    def _refusal(self, device: int, number: int) -> str:
        """Return why a number cannot have a held report; empty if it can."""
        state = self._coins.get(device)
        batch = state.batch_of(number) if state is not None else None
        if batch is None or not batch.approved:
            return "in no approved batch"
        return "a number that an audit revealed" if batch.has_revealed(number) else ""


def _lowest(held: HeldReports) -> tuple[Ints, Ints]:
    """Return the devices with held reports, ascending, and the lowest held number of each."""
    devices, place = np.unique(held.device, return_inverse=True)
    lowest = np.full(len(devices), _NONE)
    np.minimum.at(lowest, place, held.number)
    return devices, lowest
