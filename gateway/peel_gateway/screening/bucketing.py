# SPDX-License-Identifier: MIT
"""Choose the time bucket of each report that counts.

A device takes at most `quota` numbers per `period`, so in any stretch of time it takes a known number of them. That number is the
*capacity* of a bucket::

    capacity = ceil(1.1 quota bucket_seconds / period)

**The rule.** All reports of one device in one bucket have numbers within `capacity` consecutive ones. A device cannot choose which
attribute a number assigns, so it cannot choose which attributes land in one bucket: whatever it delays or leaves out, distant numbers
never share a bucket. The rule does not look at signs or attributes, and refuses no report.

Within the rule a report is bucketed, in this order of preference:

1. in the bucket in which it arrived, if its number continues the numbers there;
2. in an earlier bucket whose numbers it lies between or continues (late reports find the others of their time);
3. in the latest earlier bucket that holds nothing of the device: a backlog fills the buckets of the outage, newer numbers in newer
   buckets, and a hoard is spread over the time in which it was saved;
4. under no time (`NO_BUCKET`): it counts in estimates over the whole life, and in no bucket.

If the quota allows less than one report per bucket, several buckets are counted together as a *stretch*, long enough for one report.
Capacity begins at a device's enrolment, or at its first report if that is earlier. No report goes into a bucket after its arrival.

A clock that was ahead for a while leaves reports in future buckets. They stay there. Once the clock is right, nothing beyond now is
looked up, searched or bucketed.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_gateway.model.gateway_time import RATE_SLACK_TENTHS
from peel_gateway.model.grouping import rows_where
from peel_gateway.model.tables import BucketSpanTable, DeviceStates, Found, Positions, Slots
from peel_gateway.screening.batch import Batch
from peel_gateway.screening.state_cache import StateCache

__all__ = [
    "LOOKBACK",
    "NO_BUCKET",
    "Crowded",
    "assign_buckets",
    "bucket_capacity",
    "crowded",
    "kept_from",
    "stretch",
]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NO_BUCKET = 0
"""The bucket of reports that no bucket has capacity for."""
_LAST = 2**32 - 1
"""The log has 32 bits for a bucket: what a clock files after 7 February 2106 has no time."""
LOOKBACK = 4096
"""Most buckets that are searched for capacity, from the arrival back: two weeks of five minutes each."""
_KEPT = LOOKBACK + 288
"""Spans are kept for this many buckets back from now. A report that arrived earlier and is replayed now gets no bucket."""
_FURTHER = 256
"""Stretches that are searched before the oldest one that the device's last backlog filled."""
_NO_NUMBER = 2**62
"""Above every report number."""
_LONGEST = 288
"""Buckets of a stretch at most: a day of five minutes each."""


@dataclass(frozen=True)
class Crowded:
    """Devices whose reports came late, out of order or too many for one bucket. Their older buckets must be looked up to place them."""

    devices: Positions
    """Positions among the senders."""
    stretch: Ints
    """Seconds over which the capacity of each is counted."""
    begins: Ints
    """For each device, the oldest bucket to look at. It is the first bucket of a stretch."""
    arrival: Ints
    """Of every report of the batch: the bucket in which it arrived, which is not after `newest`."""
    newest: int
    """The bucket of now."""


def stretch(quota: Ints, period: Ints, bucket_seconds: int) -> Ints:
    """Seconds over which a device's capacity is counted: a bucket, or several with one report together; int64, shaped like quota."""
    buckets = 10 * period // (RATE_SLACK_TENTHS * quota * bucket_seconds)
    return np.asarray(np.clip(buckets, 1, _LONGEST) * bucket_seconds)


def bucket_capacity(quota: Ints, period: Ints, seconds: Ints | int) -> Ints:
    """Return how many consecutive numbers of a device such a stretch holds, at least one; int64 of the shape of quota."""
    return np.asarray(-(-RATE_SLACK_TENTHS * quota * seconds // (10 * period)))


def kept_from(now: int, bucket_seconds: int) -> int:
    """The oldest bucket that reports still go into; now in Unix milliseconds."""
    return max(0, now // 1000 // bucket_seconds - _KEPT) * bucket_seconds


def arrival_buckets(batch: Batch, bucket_seconds: int, now: int) -> Ints:
    """Return the bucket in which each report arrived; one that seems to come from the future arrived while the clock was wrong."""
    bucket = np.minimum(batch.received, now) // 1000 // bucket_seconds * bucket_seconds
    return np.where(bucket > _LAST, NO_BUCKET, bucket)


def crowded(batch: Batch, fresh: Bools, cache: StateCache, bucket_seconds: int, now: int) -> Crowded:
    """Find the devices whose reports cannot be bucketed by their states alone; now in Unix milliseconds.

    The states are enough for devices that send within their quota, in time and in order.

    Parameters
    ----------
    fresh : bool, shape (N,)
        Reports that may count.
    """
    rows = batch.order[fresh[batch.order]]
    first = rows_where(np.diff(batch.at[rows], prepend=-1) != 0)
    who, coming = Positions(batch.at[rows[first]]), np.diff(first, append=len(rows))
    arrival = arrival_buckets(batch, bucket_seconds, now)
    oldest, newest = (each.reduceat(arrival[rows], first) if len(rows) else first for each in (np.minimum, np.maximum))
    lowest, highest = batch.number[rows[first]], batch.number[rows[first + coming - 1]]  # rows are in this order
    rates = cache.context.quotas(Slots(batch.senders[who]))
    seconds = stretch(*rates, bucket_seconds)
    capacities = bucket_capacity(*rates, seconds)
    states = batch.states
    newest_known, low, high, filled = (
        column[who]
        for column in (states.newest_bucket, states.bucket_lowest, states.bucket_highest, states.bucketed_down_to)
    )
    begun = newest_known // seconds == newest // seconds
    span = np.where(begun, np.maximum(high, highest) - low, highest - lowest)
    in_order = lowest >= np.where(begun, low, high + 1)
    mine = rows_where((oldest != newest) | (oldest < newest_known) | ~in_order | (span >= capacities))
    who, oldest, seconds, filled = Positions(who[mine]), oldest[mine], seconds[mine], filled[mine]
    windows = np.minimum(coming, (highest - lowest) // capacities + 1)[mine]
    deepest = np.where(filled > 0, np.minimum(filled, oldest), oldest)
    begins = np.maximum(oldest - LOOKBACK * bucket_seconds, _start(batch, cache, who, oldest, bucket_seconds))
    begins = np.maximum(begins, deepest - (_FURTHER + 4 * windows) * seconds)
    return Crowded(
        devices=who,
        stretch=seconds,
        begins=np.maximum(begins // seconds, -(-kept_from(now, bucket_seconds) // seconds)) * seconds,
        arrival=arrival,
        newest=now // 1000 // bucket_seconds * bucket_seconds,
    )


def _start(batch: Batch, cache: StateCache, devices: Positions, oldest: Ints, bucket_seconds: int) -> Ints:
    """Return the first bucket in which senders have capacity: that of their enrolment, or of their first report if that is earlier."""
    heard_first = batch.states.first_received[devices] // 1000 // bucket_seconds * bucket_seconds
    enrolled = cache.context.enrolled[batch.senders[devices]] // 1000 // bucket_seconds * bucket_seconds
    start = np.where(heard_first > 0, np.minimum(heard_first, oldest), oldest)
    return np.where(enrolled > 0, np.minimum(enrolled, start), start)


def assign_buckets(
    batch: Batch,
    cache: StateCache,
    found: Found,
    counted: Bools,
    states: DeviceStates,
    crowded: Crowded,
    bucket_seconds: int,
) -> tuple[Ints, BucketSpanTable, DeviceStates]:
    """Choose the bucket of each report that counts; the others get that of their arrival.

    Returns
    -------
    bucket : int64, shape (N,)
        Unix seconds.
    table : BucketSpanTable
        Rows that the store's rows must be widened by.
    states : DeviceStates
    """
    bucket = crowded.arrival.copy()
    capacities = bucket_capacity(*cache.context.quotas(Slots(batch.senders[crowded.devices])), crowded.stretch)
    ids = cache.context.ids(batch.senders)
    down_to = states.bucketed_down_to.copy()
    order = batch.order[counted[batch.order]]
    at = batch.at[order]
    firsts, lasts = (np.searchsorted(at, crowded.devices, side) for side in ("left", "right"))
    for place, (device, begin) in enumerate(zip(crowded.devices.tolist(), crowded.begins.tolist(), strict=True)):
        rows = order[firsts[place] : lasts[place]]
        if not len(rows):
            continue
        of = slice(*np.searchsorted(found.bucket_spans.device, [ids[device], ids[device] + 1]))
        upto = int(bucket[rows].max())
        shelf = _Shelf(begin, upto, int(crowded.stretch[place]), bucket_seconds, capacity=int(capacities[place]))
        shelf.take(found.bucket_spans.bucket[of], found.bucket_spans.lowest[of], found.bucket_spans.highest[of])
        known = states.at(np.array([device]))
        shelf.take(known.newest_bucket, known.bucket_lowest, known.bucket_highest)
        bucket[rows] = shelf.file(bucket[rows], batch.number[rows])
        found_room = bucket[rows][bucket[rows] != NO_BUCKET]
        if len(found_room):
            down_to[device] = found_room.min()
    timed = order[bucket[order] != NO_BUCKET]
    held = _spans(Positions(batch.at[timed]), bucket[timed], batch.number[timed])
    newest = _newest(held)
    begun = _after_a_wrong_clock(newest, crowded.newest, states, ids, found.bucket_spans)
    noted = _note(states.changed(bucketed_down_to=down_to), newest, begun)
    return bucket, _older(states, noted, ids, held), noted


@dataclass(frozen=True)
class _Spans:
    """The lowest and highest number that come into buckets: rows by device and bucket, each once."""

    device: Positions
    """Positions among the senders."""
    bucket: Ints
    lowest: Ints
    highest: Ints


def _spans(device: Positions, bucket: Ints, number: Ints) -> _Spans:
    """Find the spans of reports that are sorted by device and number; mostly all of a device's are in one bucket."""
    if np.any((device[1:] == device[:-1]) & (bucket[1:] < bucket[:-1])):
        order = np.lexsort((number, bucket, device))
        device, bucket, number = Positions(device[order]), bucket[order], number[order]
    new = np.ones(len(device) + 1, np.bool_)
    new[1:-1] = (device[1:] != device[:-1]) | (bucket[1:] != bucket[:-1])
    first, last = rows_where(new[:-1]), rows_where(new[1:])
    return _Spans(Positions(device[first]), bucket[first], number[first], number[last])


class _Shelf:
    """The stretches of one device, from the one that begins with `begin` on: the lowest and the highest number in each.

    The numbers between these two are the stretch's *window*. Windows do not overlap, except where arrivals or quotas force it.
    """

    def __init__(self, begin: int, newest: int, seconds: int, bucket_seconds: int, *, capacity: int) -> None:
        self._begin, self._seconds, self._bucket, self._capacity = begin, seconds, bucket_seconds, capacity
        stretches = max(0, (newest - begin) // seconds + 1)
        self._low, self._high = np.full(stretches, _NO_NUMBER), np.zeros(stretches, np.int64)

    def take(self, buckets: Ints, lowest: Ints, highest: Ints) -> None:
        """Note the spans of earlier reports."""
        place = (buckets - self._begin) // self._seconds
        within = (place >= 0) & (place < len(self._low)) & (buckets > 0)
        np.minimum.at(self._low, place[within], lowest[within])
        np.maximum.at(self._high, place[within], highest[within])

    def file(self, arrival: Ints, number: Ints) -> Ints:
        """Return the buckets of reports: those of the newest arrival are bucketed first, of these the newest numbers."""
        windows = _Windows(self._low, self._high, self._capacity)
        result = np.full(len(arrival), NO_BUCKET, np.int64)
        for newest in np.unique(arrival)[::-1].tolist():
            rows = rows_where(arrival == newest)
            rows = rows[np.argsort(-number[rows], kind="stable")]
            windows.end_at((newest - self._begin) // self._seconds)
            place = windows.file(number[rows])
            last_bucket = self._begin + (place + 1) * self._seconds - self._bucket
            result[rows] = np.where(place >= 0, np.minimum(last_bucket, newest), NO_BUCKET)
        return result


class _Windows:
    """The windows of one device in the order of their numbers, and the stretches that are empty."""

    def __init__(self, low: Ints, high: Ints, capacity: int) -> None:
        places = rows_where(high > 0)
        places = places[np.argsort(low[places], kind="stable")]
        self._places, self._lows, self._highs = (each.tolist() for each in (places, low[places], high[places]))
        self._taken = set(self._places)
        self._capacity, self._last = capacity, len(low) - 1
        self._known = max(self._highs, default=0)
        """The highest number before those that are bucketed now."""

    def end_at(self, last: int) -> None:
        """File nothing after this stretch from now on; each call names an earlier one than the call before."""
        self._last = self._free = last

    def file(self, numbers: Ints) -> Ints:
        """Return the stretches of descending numbers, -1 where none has capacity."""
        result = np.full(len(numbers), -1, np.int64)
        falling = (-numbers).tolist()
        at = 0
        while at < len(falling):  # once per window, not per number
            window, bottom = self._choose(-falling[at])
            end = bisect_right(falling, -bottom, at)
            if window >= 0:
                self._lows[window] = min(self._lows[window], -falling[end - 1])
                self._highs[window] = max(self._highs[window], -falling[at])
                result[at:end] = self._places[window]
            at = end
        return result

    def _choose(self, number: int) -> tuple[int, int]:
        """Choose a number's window, -1 if no window fits. All numbers from the returned one up to this one have the same window."""
        above = bisect_right(self._lows, number)
        below, ended, reach = above - 1, 0, 0  # numbers from `reach` on are too high for the window below
        if above:
            ended = self._highs[below]
            reach = self._lows[below] + self._capacity if self._places[below] <= self._last else 0
        if number <= ended and reach:
            return below, self._lows[below]
        bottom = min(ended + 1, number)
        free = self._next_empty()
        if above == len(self._lows) and free == self._last:  # in order, and the first in its bucket
            return self._open(above, number, free), max(bottom, number - self._capacity + 1)
        if self._reaches_down(above, number):
            middle = (ended + self._lows[above]) // 2
            if number >= reach or number > middle:
                return above, max(bottom, self._highs[above] - self._capacity + 1, middle + 1 if number < reach else 0)
        # A backlog fills the buckets of the outage, a late report joins its neighbours.
        newer = number > self._known and (above == 0 or free > self._places[below])
        if number < reach and not newer:
            return below, bottom
        bottom = max(bottom, number - self._capacity + 1 if free >= 0 else 0, 0 if newer else reach)
        return self._open(above, number, free), bottom

    def _reaches_down(self, window: int, number: int) -> bool:
        """Whether a window above a number may be extended to it."""
        return (
            window < len(self._lows)
            and self._places[window] <= self._last
            and self._highs[window] - number < self._capacity
        )

    def _next_empty(self) -> int:
        """Return the latest empty stretch, -1 if no stretch is empty."""
        while self._free in self._taken:
            self._free -= 1
        return self._free

    def _open(self, window: int, number: int, place: int) -> int:
        """Begin a window in an empty stretch; return it, or -1 where no stretch is empty."""
        if place < 0:
            return -1
        self._taken.add(place)
        for column, value in ((self._places, place), (self._lows, number), (self._highs, number)):
            column.insert(window, value)
        return window


def _older(before: DeviceStates, after: DeviceStates, ids: Ints, held: _Spans) -> BucketSpanTable:
    """Return the spans to store for older buckets: those filled now, and the former newest one of each device that began another."""
    older = held.bucket < after.newest_bucket[held.device]
    moved = rows_where((after.newest_bucket != before.newest_bucket) & (before.newest_bucket > 0))
    columns = (
        (held.bucket, before.newest_bucket),
        (held.lowest, before.bucket_lowest),
        (held.highest, before.bucket_highest),
    )
    return BucketSpanTable(
        ids[np.concatenate([held.device[older], moved])],
        *(np.concatenate([now[older], then[moved]]) for now, then in columns),
    )


def _newest(held: _Spans) -> _Spans:
    """Return what comes into the newest bucket of each device."""
    last = np.diff(held.device, append=-1) != 0
    return _Spans(Positions(held.device[last]), held.bucket[last], held.lowest[last], held.highest[last])


def _after_a_wrong_clock(
    added: _Spans, now: int, states: DeviceStates, ids: Ints, bucket_spans: BucketSpanTable
) -> Bools:
    """Return True for devices whose newest bucket on record is in the future, as the clock was ahead, and whose present one is empty."""
    ahead = states.newest_bucket[added.device] > now
    for place in rows_where(ahead).tolist():
        of = slice(*np.searchsorted(bucket_spans.device, ids[added.device[place]] + np.arange(2)))
        ahead[place] = added.bucket[place] not in bucket_spans.bucket[of]
    return np.asarray(ahead)


def _note(states: DeviceStates, added: _Spans, begun: Bools) -> DeviceStates:
    """Remember the newest bucket of each device and its numbers; some are begun now whatever there was."""
    who, when = added.device, added.bucket
    bucket, lowest, highest = (
        column.copy() for column in (states.newest_bucket, states.bucket_lowest, states.bucket_highest)
    )
    newer, same = begun | (when > bucket[who]), when == bucket[who]
    lowest[who[same]] = np.minimum(lowest[who[same]], added.lowest[same])
    highest[who[same]] = np.maximum(highest[who[same]], added.highest[same])
    bucket[who[newer]], lowest[who[newer]], highest[who[newer]] = when[newer], added.lowest[newer], added.highest[newer]
    return states.changed(newest_bucket=bucket, bucket_lowest=lowest, bucket_highest=highest)
