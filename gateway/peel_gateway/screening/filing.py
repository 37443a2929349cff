# SPDX-License-Identifier: MIT
"""Filing: into which time bucket each report goes that counts.

A device takes at most `quota` numbers per `period`, so over any stretch of time it is entitled to a known number of reports. Each report
is filed in the latest bucket, not after its receipt, in which its device still has room ::

    room = ceil(1.1 quota bucket_seconds / period)

An outage's backlog then fills the buckets of the outage, a hoard of saved numbers is spread over the time in which it was saved, and no
device ever holds more than its quota's part of any bucket: by construction, in whatever order things are delivered, without refusing
anybody and without looking at a sign. Room begins at a device's enrolment, or at its first report if that was heard before. What finds
none, such as the quota that a new device may use at once, is filed under no time at all (`UNFILED`): it counts in estimates over the whole
life, and in no bucket. Within a batch newer numbers take the newer buckets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_gateway.model.pace import RATE_SLACK_TENTHS
from peel_gateway.model.tables import FiledTable, Found
from peel_gateway.screening.batch import Batch
from peel_gateway.screening.book import Book, States
from peel_gateway.screening.layers import OPEN

__all__ = ["LOOKBACK", "UNFILED", "Filed", "asked", "file_reports", "room"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UNFILED = 0
"""The bucket of reports that no bucket has room for."""
LOOKBACK = 4096
"""Buckets that are searched for room, from the receipt back: two weeks of five minutes each."""


@dataclass(frozen=True, kw_only=True)
class Filed:
    """Where the reports of a batch went."""

    bucket: Ints
    """Per report, Unix seconds; that of the receipt for reports that do not count."""
    table: FiledTable
    """To be added."""
    states: States


def room(quota: Ints, period: Ints, bucket_seconds: int) -> Ints:
    """Reports of a device that a bucket holds, at least one; int64 of the shape of quota."""
    return np.asarray(-(-RATE_SLACK_TENTHS * quota * bucket_seconds // (10 * period)))


def receipts(batch: Batch, bucket_seconds: int) -> Ints:
    """The bucket of each report's receipt."""
    return np.asarray(batch.received // 1000 // bucket_seconds * bucket_seconds)


def asked(batch: Batch, book: Book, bucket_seconds: int) -> tuple[Ints, Ints]:
    """Heard devices whose newest bucket may not hold what they send, with the oldest bucket that must be looked at.

    For all others what the states say is enough: they send within their quota, and in time.
    """
    rows = np.flatnonzero(batch.verdicts == OPEN)
    at, receipt = batch.at[rows], receipts(batch, bucket_seconds)[rows]
    oldest, newest = np.full(len(batch.heard), np.iinfo(np.int64).max), np.zeros(len(batch.heard), np.int64)
    np.minimum.at(oldest, at, receipt)
    np.maximum.at(newest, at, receipt)
    coming = np.bincount(at, minlength=len(batch.heard))
    used = np.where(batch.states["filed_bucket"] == newest, batch.states["filed_reports"], 0)
    full = used + coming > room(*book.roster.quotas(batch.heard), bucket_seconds)
    mine = np.flatnonzero(full | (oldest != newest) | (oldest < batch.states["filed_bucket"]))
    heard_first = batch.states["first_received"][mine] // 1000 // bucket_seconds * bucket_seconds
    enrolled = book.roster.enrolled[batch.heard[mine]] // 1000 // bucket_seconds * bucket_seconds
    start = np.where(heard_first > 0, heard_first, oldest[mine])
    start = np.where(enrolled > 0, np.minimum(enrolled, start), start)
    return mine, np.maximum(oldest[mine] - LOOKBACK * bucket_seconds, start)


def file_reports(batch: Batch, book: Book, found: Found, counted: Bools, states: States, bucket_seconds: int) -> Filed:
    """File the reports that count."""
    bucket = receipts(batch, bucket_seconds)
    devices, begins = asked(batch, book, bucket_seconds)
    rooms = room(*book.roster.quotas(batch.heard), bucket_seconds)
    ids = book.roster.ids(batch.heard)
    for device, begin in zip(devices.tolist(), begins.tolist(), strict=True):
        rows = np.flatnonzero(counted & (batch.at == device))
        of = found.filed.device == ids[device]
        used = dict(zip(found.filed.bucket[of].tolist(), found.filed.reports[of].tolist(), strict=True))
        bucket[rows] = _spread(bucket[rows], batch.number[rows], used, begin, int(rooms[device]), bucket_seconds)
    timed = counted & (bucket != UNFILED)
    pairs, reports = np.unique(np.stack([batch.at[timed], bucket[timed]], axis=1), axis=0, return_counts=True)
    table = FiledTable(ids[pairs[:, 0]], pairs[:, 1], reports.astype(np.int64))
    return Filed(bucket=bucket, table=table, states=_note(states, pairs[:, 0], pairs[:, 1], table.reports))


def _spread(receipt: Ints, number: Ints, used: dict[int, int], begin: int, room: int, bucket_seconds: int) -> Ints:
    """The buckets of one device's reports: newest numbers first, each receipt's reports from there back."""
    result = np.full(len(receipt), UNFILED, np.int64)
    used = dict(used)
    for newest in np.unique(receipt)[::-1].tolist():
        rows = np.flatnonzero(receipt == newest)
        rows = rows[np.argsort(-number[rows], kind="stable")]
        buckets = np.arange(newest, begin - 1, -bucket_seconds)[: LOOKBACK + 1]
        free = np.maximum(room - np.array([used.get(each, 0) for each in buckets.tolist()], np.int64), 0)
        place = np.searchsorted(np.cumsum(free), np.arange(len(rows)), side="right")
        fits = place < len(buckets)
        result[rows[fits]] = buckets[place[fits]]
        for each, count in zip(*np.unique(result[rows[fits]], return_counts=True), strict=True):
            used[int(each)] = used.get(int(each), 0) + int(count)
    return result


def _note(states: States, device: Ints, bucket: Ints, reports: Ints) -> States:
    """Remember the newest bucket of each device and what it holds; rows are sorted by device and bucket, each once."""
    last = np.append(device[1:] != device[:-1], True)[: len(device)]
    who, when, added = device[last], bucket[last], reports[last]
    filed_bucket, filed_reports = states["filed_bucket"].copy(), states["filed_reports"].copy()
    newer, same = when > filed_bucket[who], when == filed_bucket[who]
    filed_reports[who[same]] += added[same]
    filed_reports[who[newer]] = added[newer]
    filed_bucket[who[newer]] = when[newer]
    return states | {"filed_bucket": filed_bucket, "filed_reports": filed_reports}
