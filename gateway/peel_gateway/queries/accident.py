# SPDX-License-Identifier: MIT
"""Many devices exposed together: a sign of an operator's mistake, such as a cloned fleet folder, rather than of an attack."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from peel_gateway.model.tables import DeviceTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.queries.table import Table, moment

__all__ = ["MANY", "accident"]

MANY = 5
"""Fewer devices are never called an accident."""
_SHARE = 0.2
"""Of the devices that were ever heard."""
_WITHIN_MS = 3_600_000
"""Between the first and the last of them."""


def accident(exposed: DeviceTable, *, revoked: Collection[int], heard: int) -> Table | None:
    """Return the largest set of devices that one verdict exposed within an hour; None where it is too small to look like an accident.

    Pardoned and revoked devices do not count: the operator has decided about them.
    """
    undecided = ~np.isin(exposed.device, list(revoked))
    count, since, cause = max(
        (_crowd(exposed.cause_time[undecided & (exposed.cause == cause)], cause) for cause in np.unique(exposed.cause)),
        default=(0, 0, 0),
    )
    if count < max(MANY, _SHARE * heard):
        return None
    label, begin = Verdict(cause).label, moment(since / 1000)
    return {
        "devices": count,
        "heard": heard,
        "cause": label,
        "since": begin,
        "command": f"peel gateway pardon --cause {label} --since {begin} --restore --reason accident",
        "sentence": (
            f"{count} of {heard} devices were exposed for the same cause ({label}) within an hour. This looks like an accident: a "
            "cloned fleet folder, a simulated fleet, or a restored backup. Undo that first, then pardon them. If nothing of the "
            "kind has happened, treat it as an attack and do not pardon."
        ),
    }


def _crowd(times: npt.NDArray[np.int64], cause: int) -> tuple[int, int, int]:
    """Return the most exposures within an hour, when the first of them was, and their cause."""
    times = np.sort(times)
    counts = np.searchsorted(times, times + _WITHIN_MS, side="right") - np.arange(len(times))
    if not len(counts):
        return 0, 0, int(cause)
    first = int(np.argmax(counts))
    return int(counts[first]), int(times[first]), int(cause)
