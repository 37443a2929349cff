# SPDX-License-Identifier: MIT
"""Filing: into which time bucket each report goes that counts.

A device takes at most `quota` numbers per `period`, so over any stretch of time it is entitled to a known number of reports. Each report
is filed in the latest bucket, not after its receipt, in which its device still has room ::

    room = ceil(1.1 quota bucket_seconds / period)

Where that is less than a report before it is rounded, one is the room of a *stretch* of buckets: as many as the quota has one report for.
(Room for one in each of them would be many times the quota's part: a week of hourly reports in the last half day.) An outage's backlog then
fills the buckets of the outage, a hoard of saved numbers is spread over the time in which it was saved, and no device ever holds more than
its quota's part of any bucket: by construction, in whatever order things are delivered, without refusing anybody and without looking at a
sign. Room begins at a device's enrolment, or at its first report if that was heard before. What finds none, such as the burst that a new
device may use at once, is filed under no time at all (`UNFILED`): it counts in estimates over the whole life, and in no bucket. Within a
batch newer numbers take the newer buckets.

A clock that was ahead for a while leaves reports in buckets that are yet to come. They stay there, and are nobody's newest any more once
the clock is right: nothing is looked up, searched or filed beyond now.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_gateway.model.pace import RATE_SLACK_TENTHS
from peel_gateway.model.tables import FiledTable, Found
from peel_gateway.screening.batch import Batch
from peel_gateway.screening.book import Book, States

__all__ = ["LOOKBACK", "UNFILED", "Crowded", "Filed", "crowded", "file_reports", "kept_from", "room", "stretch"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UNFILED = 0
"""The bucket of reports that no bucket has room for."""
_LAST = 2**32 - 1
"""The log has 32 bits for a bucket: what a clock files after 7 February 2106 has no time."""
LOOKBACK = 4096
"""Most buckets that are searched for room, from the receipt back: two weeks of five minutes each."""
_KEPT = LOOKBACK + 288
"""Buckets of which it is known how full they are, from now back. What was received before, and is replayed only now, finds no room."""
_FURTHER = 256
"""Stretches that are searched below those that a device's last backlog has filled."""
_LONGEST = 288
"""Buckets of a stretch at most: a day of five minutes each."""


@dataclass(frozen=True)
class Crowded:
    """Devices whose newest bucket may not hold what they send."""

    devices: Ints
    """Positions among the heard devices."""
    stretch: Ints
    """Seconds over which the room of each is counted."""
    begins: Ints
    """The oldest bucket that must be looked at, of each: a stretch begins with it."""
    receipt: Ints
    """Of every report of the batch: the bucket of its receipt, which is not after `newest`."""
    newest: int
    """The bucket of now."""


@dataclass(frozen=True, kw_only=True)
class Filed:
    """Where the reports of a batch went."""

    bucket: Ints
    """Per report, Unix seconds; that of the receipt for reports that do not count."""
    table: FiledTable
    """To be added."""
    states: States


def stretch(quota: Ints, period: Ints, bucket_seconds: int) -> Ints:
    """Seconds over which a device's room is counted: a bucket, or several that have one report together; int64 of the shape of quota."""
    buckets = 10 * period // (RATE_SLACK_TENTHS * quota * bucket_seconds)
    return np.asarray(np.clip(buckets, 1, _LONGEST) * bucket_seconds)


def room(quota: Ints, period: Ints, seconds: Ints | int) -> Ints:
    """Reports of a device that such a stretch holds, at least one; int64 of the shape of quota."""
    return np.asarray(-(-RATE_SLACK_TENTHS * quota * seconds // (10 * period)))


def kept_from(now: int, bucket_seconds: int) -> int:
    """The oldest bucket that anything is filed in; now in Unix milliseconds."""
    return max(0, now // 1000 // bucket_seconds - _KEPT) * bucket_seconds


def receipts(batch: Batch, bucket_seconds: int, now: int) -> Ints:
    """The bucket of each report's receipt; what seems to come from the future was received while the clock was wrong."""
    bucket = np.minimum(batch.received, now) // 1000 // bucket_seconds * bucket_seconds
    return np.where(bucket > _LAST, UNFILED, bucket)


def crowded(batch: Batch, book: Book, bucket_seconds: int, now: int) -> Crowded:
    """Find the devices that may lack room; now in Unix milliseconds.

    For all others what the states say is enough: they send within their quota, and in time.
    """
    at, receipt = batch.at[batch.order], receipts(batch, bucket_seconds, now)
    oldest, newest = np.full(len(batch.heard), np.iinfo(np.int64).max), np.zeros(len(batch.heard), np.int64)
    np.minimum.at(oldest, at, receipt[batch.order])
    np.maximum.at(newest, at, receipt[batch.order])
    coming = np.bincount(at, minlength=len(batch.heard))
    rates = book.roster.quotas(batch.heard)
    seconds = stretch(*rates, bucket_seconds)
    rooms = room(*rates, seconds)
    used = np.where(batch.states["filed_bucket"] // seconds == newest // seconds, batch.states["filed_reports"], 0)
    full = used + coming > rooms
    mine = np.flatnonzero(full | (oldest != newest) | (oldest < batch.states["filed_bucket"]))
    rooms, seconds = rooms[mine], seconds[mine]
    filled = batch.states["filed_down_to"][mine]
    deepest = np.where(filled > 0, np.minimum(filled, oldest[mine]), oldest[mine])
    begins = np.maximum(oldest[mine] - LOOKBACK * bucket_seconds, _start(batch, book, mine, oldest, bucket_seconds))
    begins = np.maximum(begins, deepest - (_FURTHER + -(-4 * coming[mine] // rooms)) * seconds)
    return Crowded(
        devices=mine,
        stretch=seconds,
        begins=np.maximum(begins // seconds, -(-kept_from(now, bucket_seconds) // seconds)) * seconds,
        receipt=receipt,
        newest=now // 1000 // bucket_seconds * bucket_seconds,
    )


def _start(batch: Batch, book: Book, devices: Ints, oldest: Ints, bucket_seconds: int) -> Ints:
    """The first bucket in which heard devices have room: that of their enrolment, or of their first report if that is earlier."""
    heard_first = batch.states["first_received"][devices] // 1000 // bucket_seconds * bucket_seconds
    enrolled = book.roster.enrolled[batch.heard[devices]] // 1000 // bucket_seconds * bucket_seconds
    start = np.where(heard_first > 0, np.minimum(heard_first, oldest[devices]), oldest[devices])
    return np.where(enrolled > 0, np.minimum(enrolled, start), start)


def file_reports(
    batch: Batch, book: Book, found: Found, counted: Bools, states: States, crowded: Crowded, bucket_seconds: int
) -> Filed:
    """File the reports that count."""
    bucket = crowded.receipt.copy()
    rooms = room(*book.roster.quotas(batch.heard[crowded.devices]), crowded.stretch)
    ids = book.roster.ids(batch.heard)
    down_to = states["filed_down_to"].copy()
    order = batch.order[counted[batch.order]]
    at = batch.at[order]
    firsts, lasts = (np.searchsorted(at, crowded.devices, side) for side in ("left", "right"))
    for place, (device, begin) in enumerate(zip(crowded.devices.tolist(), crowded.begins.tolist(), strict=True)):
        rows = order[firsts[place] : lasts[place]]
        if not len(rows):
            continue
        of = slice(*np.searchsorted(found.filed.device, [ids[device], ids[device] + 1]))
        shelf = _Shelf(
            begin, int(bucket[rows].max()), int(crowded.stretch[place]), bucket_seconds, room=int(rooms[place])
        )
        shelf.take(found.filed.bucket[of], found.filed.reports[of])
        shelf.take(states["filed_bucket"][[device]], states["filed_reports"][[device]])
        bucket[rows] = shelf.file(bucket[rows], batch.number[rows])
        found_room = bucket[rows][bucket[rows] != UNFILED]
        if len(found_room):
            down_to[device] = found_room.min()
    timed = order[bucket[order] != UNFILED]
    held = _added(batch.at[timed], bucket[timed])
    newest = _newest(held)
    begun = _after_a_wrong_clock(newest, crowded.newest, states, ids, found.filed)
    noted = _note(states | {"filed_down_to": down_to}, newest, begun)
    return Filed(bucket=bucket, table=_older(states, noted, ids, held), states=noted)


@dataclass(frozen=True)
class _Added:
    """How many reports come into buckets: rows by device and bucket, each once."""

    device: Ints
    bucket: Ints
    reports: Ints


def _added(device: Ints, bucket: Ints) -> _Added:
    """Count reports that are sorted by device; mostly all of a device's are in one bucket, and then they are sorted by that too."""
    if np.any((device[1:] == device[:-1]) & (bucket[1:] < bucket[:-1])):
        order = np.lexsort((bucket, device))
        device, bucket = device[order], bucket[order]
    first = np.flatnonzero((np.diff(device, prepend=-1) != 0) | (np.diff(bucket, prepend=-1) != 0))
    return _Added(device[first], bucket[first], np.diff(first, append=len(device)))


class _Shelf:
    """The stretches of one device, from the one that begins with `begin` on, and how much room each has left."""

    def __init__(self, begin: int, newest: int, seconds: int, bucket_seconds: int, *, room: int) -> None:
        self._begin, self._seconds, self._bucket = begin, seconds, bucket_seconds
        self._free = np.full(max(0, (newest - begin) // seconds + 1), room, np.int64)

    def take(self, buckets: Ints, reports: Ints) -> None:
        """Note what is filed already."""
        place = (buckets - self._begin) // self._seconds
        within = (place >= 0) & (place < len(self._free))
        np.subtract.at(self._free, place[within], reports[within])
        np.maximum(self._free, 0, out=self._free)

    def file(self, receipt: Ints, number: Ints) -> Ints:
        """Find buckets for reports: those of the newest receipt first, of these the newest numbers; the latest one of a stretch."""
        result = np.full(len(receipt), UNFILED, np.int64)
        for newest in np.unique(receipt)[::-1].tolist():
            rows = np.flatnonzero(receipt == newest)
            rows = rows[np.argsort(-number[rows], kind="stable")]
            free = self._free[: max(0, (newest - self._begin) // self._seconds + 1)][::-1]
            place = np.searchsorted(np.cumsum(free), np.arange(len(rows)), side="right")
            fits = place < len(free)
            last = newest // self._seconds * self._seconds + self._seconds - self._bucket
            result[rows[fits]] = np.minimum(last - place[fits] * self._seconds, newest)
            np.subtract.at(free, place[fits], 1)
        return result


def _older(before: States, after: States, ids: Ints, held: _Added) -> FiledTable:
    """What is to be added to buckets that are not their device's newest: now filed there, or until now in its newest."""
    older = held.bucket < after["filed_bucket"][held.device]
    moved = np.flatnonzero((after["filed_bucket"] != before["filed_bucket"]) & (before["filed_reports"] > 0))
    return FiledTable(
        device=ids[np.concatenate([held.device[older], moved])],
        bucket=np.concatenate([held.bucket[older], before["filed_bucket"][moved]]),
        reports=np.concatenate([held.reports[older], before["filed_reports"][moved]]),
    )


def _newest(held: _Added) -> _Added:
    """What comes into the newest bucket of each device."""
    last = np.diff(held.device, append=-1) != 0
    return _Added(held.device[last], held.bucket[last], held.reports[last])


def _after_a_wrong_clock(added: _Added, now: int, states: States, ids: Ints, filed: FiledTable) -> Bools:
    """Which of these buckets are their device's newest although the clock once was further: those in which it has nothing yet."""
    ahead = states["filed_bucket"][added.device] > now
    for place in np.flatnonzero(ahead).tolist():
        of = slice(*np.searchsorted(filed.device, ids[added.device[place]] + np.arange(2)))
        ahead[place] = added.bucket[place] not in filed.bucket[of]
    return np.asarray(ahead)


def _note(states: States, added: _Added, begun: Bools) -> States:
    """Remember the newest bucket of each device and what it holds; some are begun now whatever there was."""
    who, when, reports = added.device, added.bucket, added.reports
    filed_bucket, filed_reports = states["filed_bucket"].copy(), states["filed_reports"].copy()
    newer, same = begun | (when > filed_bucket[who]), when == filed_bucket[who]
    filed_reports[who[same]] += reports[same]
    filed_reports[who[newer]] = reports[newer]
    filed_bucket[who[newer]] = when[newer]
    return states | {"filed_bucket": filed_bucket, "filed_reports": filed_reports}
