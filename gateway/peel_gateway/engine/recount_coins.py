# SPDX-License-Identifier: MIT
"""Recount of verified coins: held reports, batches and their roots agree with each other and with the log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from peel_gateway.model.coins import Batches
from peel_gateway.model.tables import Difference, Positions, StoredState
from peel_gateway.screening.numbers import UsedNumbers, unseen

__all__ = ["coin_differences"]


def coin_differences(kept: StoredState) -> Iterator[Difference]:
    """Yield batches without roots or roots without a batch, and held reports that contradict their device."""
    coins, batches = kept.coins, Batches.of_devices(kept.coins.batches)
    named = set(zip(coins.device[batches.at].tolist(), batches.first.tolist(), strict=True))
    for device, first in sorted(named ^ kept.committed):
        stored = "a batch without its roots" if (device, first) in named else "roots without their batch"
        yield Difference("coin_batch", f"{device:08x}/{first}", stored, "both")
    yield from _held_differences(kept, batches)


def _held_differences(kept: StoredState, batches: Batches) -> Iterator[Difference]:
    coins, devices = kept.coins, kept.devices
    device, number, has_coin = kept.waiting
    known = np.isin(device, coins.device) & np.isin(device, devices.device)
    for each in np.unique(device[~known]).tolist():
        yield Difference("held_report", f"{each:08x}", "held", "of an unknown device")
    device, number, has_coin = device[known], number[known], has_coin[known]
    alive = batches.may_report(np.searchsorted(coins.device, device), number)
    device, number, has_coin = device[alive], number[alive], has_coin[alive]
    at = Positions(np.searchsorted(devices.device, device))
    used = UsedNumbers(devices.low_water, devices.last_number, devices.holes, devices.forgone)
    for row in np.flatnonzero(unseen(used, at, number)).tolist():
        yield Difference("held_report", f"{device[row]:08x}/{number[row]}", "held", "not in the log")
    # Reports without a reading wait along with the others. They are not held: they have their verdict already.
    count = np.bincount(at[has_coin], minlength=len(devices))
    for row in np.flatnonzero(count != devices.held).tolist():
        yield Difference("held", f"{devices.device[row]:08x}", int(devices.held[row]), int(count[row]))
