# SPDX-License-Identifier: MIT
"""Release: void the verified coins of stalled devices and write audit entries, in one transaction per partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from peel_gateway.engine.clock import Reading, advance, read_clock
from peel_gateway.model.exposure import AuditEntry
from peel_gateway.storage.store import Archive, Store

__all__ = ["ReleaseError", "release"]


class ReleaseError(Exception):
    """A device cannot be released. No device was released."""


def release(
    archive: Archive, devices: Sequence[int], *, reason: str, who: str, clock: Callable[[], Reading] = read_clock
) -> list[AuditEntry]:
    """Make all batches and held reports of devices void. A running gateway follows with its next batch.

    The numbers of void batches are lost: the device commits to new ones.

    Raises
    ------
    ReleaseError
        A device has neither a batch nor a held report.
    """
    wanted = list(dict.fromkeys(devices))
    for store in archive.stores():  # before the first change
        if mine := _within(archive, store, wanted):
            _refuse_empty(store, mine)
    entries: list[AuditEntry] = []
    for store in archive.stores():
        if mine := _within(archive, store, wanted):
            entries += _release_in(store, mine, reason=reason, who=who, clock=clock)
    return entries


def _within(archive: Archive, store: Store, devices: Sequence[int]) -> list[int]:
    return [device for device in devices if device % archive.partitions == store.partition]


def _refuse_empty(store: Store, devices: Sequence[int]) -> None:
    ids = np.array(sorted(devices), np.int64)
    _, coins = store.read_coins(ids)
    states = store.devices(ids)
    having = {*coins.device[coins.batches != b""].tolist(), *states.device[states.held > 0].tolist()}
    for device in devices:
        if device not in having:
            raise _nothing_to_release(device)


def _release_in(
    store: Store, devices: Sequence[int], *, reason: str, who: str, clock: Callable[[], Reading]
) -> list[AuditEntry]:
    entries = []
    with store.begin() as transaction:
        moment = advance(transaction.clock(), clock())
        for device in devices:
            entry = transaction.release(device, reason=reason, who=who, moment=moment)
            if entry is None:
                raise _nothing_to_release(device)
            entries.append(entry)
    return entries


def _nothing_to_release(device: int) -> ReleaseError:
    return ReleaseError(
        f"device {device:08x}: has no batch of verified coins and no held report, so there is nothing to release"
    )
