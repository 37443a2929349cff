# SPDX-License-Identifier: MIT
"""Pardon: clear the exposure of devices and write audit entries, in one transaction per partition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from peel_gateway.engine.clock import Reading, advance, read_clock
from peel_gateway.model.exposure import AuditEntry
from peel_gateway.model.tables import DeviceTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.store import Archive, Store

__all__ = ["PardonError", "exposed_devices", "pardon"]


class PardonError(Exception):
    """A device cannot be pardoned. No device was pardoned."""


def exposed_devices(devices: DeviceTable, cause: Verdict, *, since: float = 0.0, until: float = math.inf) -> list[int]:
    """Return the ids of devices that a cause has exposed between two times, both included (Unix seconds)."""
    within = (devices.cause_time >= np.rint(since * 1000)) & (devices.cause_time <= np.rint(until * 1000))
    return [int(device) for device in devices.device[np.flatnonzero((devices.cause == int(cause)) & within)]]


def pardon(
    archive: Archive,
    devices: Sequence[int],
    *,
    restore: bool,
    reason: str,
    who: str,
    clock: Callable[[], Reading] = read_clock,
) -> list[AuditEntry]:
    """Pardon exposed devices, in one transaction per partition. A running gateway follows with its next batch.

    Parameters
    ----------
    restore : bool
        Whether their earlier reports count again. Otherwise these stay withdrawn, also after a later pardon. Reports sent while a device
        was exposed were never judged, and count in neither case.

    Raises
    ------
    PardonError
        A device is not exposed.
    """
    known = archive.devices()
    exposed = set(known.device[known.cause != 0].tolist())
    for device in devices:
        if device not in exposed:
            raise _nothing_to_pardon(device)
    entries: list[AuditEntry] = []
    for store in archive.stores():
        mine = [device for device in devices if device % archive.partitions == store.partition]
        if mine:
            entries += _pardon_in(store, mine, restore=restore, reason=reason, who=who, clock=clock)
    return entries


def _pardon_in(
    store: Store, devices: Sequence[int], *, restore: bool, reason: str, who: str, clock: Callable[[], Reading]
) -> list[AuditEntry]:
    entries = []
    with store.begin() as transaction:
        moment = advance(transaction.clock(), clock())
        for device in devices:
            entry = transaction.pardon(device, restore=restore, reason=reason, who=who, moment=moment)
            if entry is None:
                raise _nothing_to_pardon(device)
            entries.append(entry)
    return entries


def _nothing_to_pardon(device: int) -> PardonError:
    return PardonError(f"device {device:08x}: is not exposed, so there is nothing to pardon")
