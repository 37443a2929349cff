# SPDX-License-Identifier: MIT
"""Copy one archive into another that may have a different number of partitions.

- Rows about a device go to the partition that now has the device.
- The log is written again in the order of time. Events get new arrivals, and every column that names an event by its arrival follows.
- Roll-ups go to the partition that now has the device, the log's tail included. A partition's tallies are computed from them.
- Verified coins are not copied: the copy begins a new era, so all batches and held reports are void.
- Sums without a device (pieces that left the quarantine) go to the first partition. Totals stay the same.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields

import numpy as np
import numpy.typing as npt

from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.tables import MOVING_COLUMNS, STATE_COLUMNS
from peel_gateway.model.verdict import LOGGED, Verdict
from peel_gateway.storage.records import GAP, Columns
from peel_gateway.storage.sql.connection import Connection, Row
from peel_gateway.storage.sql.log import LogWriter, read_columns
from peel_gateway.storage.sql.rollups import END, Extent, add_tallies, levels_upto, read_extent, write_level
from peel_gateway.storage.sql.rows import add_counts, read_counters
from peel_gateway.storage.sql.schema import META, REGISTRY
from peel_gateway.storage.sql.tallies import recount_tallies

__all__ = ["copy_archive"]

Ints = npt.NDArray[np.int64]

_LASTING = tuple(name for name in STATE_COLUMNS if name not in MOVING_COLUMNS)
_OF_DEVICES: dict[str, tuple[str, ...]] = {
    "device": ("device", *_LASTING),
    "progress": ("device", *MOVING_COLUMNS),
    "refused": ("device", "verdict", "reports"),
    "test_state": ("device", "profile", "arrival", "state"),
    "test_state_base": ("device", "profile", "arrival", "state"),
    "pruned": ("device", "profile", "verdict", "idx", "forfeited", "plus", "minus"),
    "bucket_span": ("device", "bucket", "lowest", "highest"),
    "audit": (
        "device", "id", "reason", "who", "time", "arrival", "cause", "restored", "reports", "last_exposure",
    ),
}  # fmt: skip
"""Tables with rows about one device: their columns, the device first."""
_ARRIVALS = {
    "device": ("pardoned", "forfeited"),
    "progress": ("arrival",),
    "test_state": ("arrival",),
    "test_state_base": ("arrival",),
    "audit": ("arrival",),
}
"""Columns that name an event of the device."""
_EXPOSURE = (
    "device", "id", "verdict", "blamed", "number", "profile", "received", "topic", "raw", "digest", "evidence",
)  # fmt: skip
_AT_ONCE = 10_000
"""Rows written per statement."""


def copy_archive(source: Connection, target: Connection, bucket_seconds: int) -> None:
    """Fill an empty archive. `source` is a snapshot, `target` is in a transaction; both have the same time buckets."""
    old, new = source.scopes(), target.scopes()
    metas: list[dict[str, int]] = [dict(scope.rows("SELECT key, value FROM {meta} AS meta")) for scope in old]
    clocks = [GatewayTime(**{each.name: meta[each.name] for each in fields(GatewayTime)}) for meta in metas]
    now = max(clocks, key=lambda clock: clock.wall)
    moved = _copy_log(old, new, [meta["checkpointed"] for meta in metas])
    arrivals = moved.arrivals()
    for partition, scope in enumerate(old):
        shift = (now.tick - now.wall) - (clocks[partition].tick - clocks[partition].wall)
        for table in _OF_DEVICES:
            _copy_devices(scope, new, table, arrivals[partition], shift)
    dropped = _copy_exposures(old, new)
    extent = _copy_rollups(old, new, bucket_seconds)
    _write_sums(source, new, dropped, moved.gaps, extent)
    for partition, scope in enumerate(new):
        meta = dict.fromkeys(META, 0) | asdict(now)
        meta |= {key: max(each[key] for each in metas) for key in ("pruned_bucket", "spans_from")}
        last = moved.last[partition]
        meta |= {"arrival": last, "sealed": last, "summed": last, "checkpointed": moved.known[partition]}
        meta |= {"built": extent.built, "fine_from": extent.fine_from}
        meta["generation"] = 0 if partition else sum(each["generation"] for each in metas)
        if not partition:
            meta |= {key: metas[0][key] for key in REGISTRY}
        scope.put("meta", {"key": list(meta)}, {"value": list(meta.values())})
    ids = {table: _newest(source, table) for table in ("exposure", "audit")}
    ids["exposure"] = max(ids["exposure"], source.value(_LAST_PARDONED))
    for table, newest in ids.items():
        target.continue_after(table, newest)


_LAST_PARDONED = "SELECT COALESCE(MAX(last_exposure), 0) FROM {audit} AS audit"
"""New exposures must have larger ids than those before a pardon, even if these were deleted."""


def _newest(source: Connection, table: str) -> int:
    return source.value(f"SELECT COALESCE(MAX(id), 0) FROM {{{table}}} AS numbered")


class _Moved:
    """New arrivals of the events that tables refer to, and the end of each new log."""

    def __init__(self, old: Sequence[Connection], partitions: int) -> None:
        self._named = [_named_arrivals(scope) for scope in old]
        self._became = [named.copy() for named in self._named]  # pruned events keep their arrival
        first = max((_first(scope) for scope in old), default=1)
        self.last = [first - 1] * partitions
        """Per new partition: its last event. New logs begin after all pruned events."""
        self.known = [first - 1] * partitions
        """Per new partition: checkpoints include the events up to this one."""
        self._all_known = [True] * partitions
        self.gaps = [0] * partitions
        """Missing numbers per new partition."""

    def note(self, partition: int, arrival: Ints, new_partition: int, became: Ints, checkpointed: int) -> None:
        """Record the new arrivals of an old partition's events."""
        named = self._named[partition]
        place = np.searchsorted(named, arrival)
        found = np.flatnonzero(named[np.minimum(place, len(named) - 1)] == arrival) if len(named) else place[:0]
        self._became[partition][place[found]] = became[found]
        if not len(became):
            return
        unknown = np.flatnonzero(arrival > checkpointed)
        if self._all_known[new_partition]:
            self.known[new_partition] = int(became[unknown[0]]) - 1 if len(unknown) else int(became[-1])
        self._all_known[new_partition] &= not len(unknown)
        self.last[new_partition] = int(became[-1])

    def arrivals(self) -> list[Mapping[int, int]]:
        """Return for each old partition the new arrivals by old ones."""
        pairs = zip(self._named, self._became, strict=True)
        return [dict(zip(named.tolist(), became.tolist(), strict=True)) for named, became in pairs]


def _named_arrivals(scope: Connection) -> Ints:
    """Return the arrivals that a partition's tables refer to, ascending."""
    found: set[int] = set()
    for table, names in _ARRIVALS.items():
        for row in scope.stream(f"SELECT {', '.join(names)} FROM {{{table}}} AS named"):
            found.update(row)
    return np.array(sorted(found), np.int64)


def _first(scope: Connection) -> int:
    """Return the arrival of the log's first event, or of the next one if the log is empty."""
    row = scope.row("SELECT last - events + 1 FROM {log} AS log ORDER BY last LIMIT 1")
    if row is not None:
        return int(row[0])
    return scope.value("SELECT value + 1 FROM {meta} AS meta WHERE key = 'arrival'")


def _copy_log(old: Sequence[Connection], new: Sequence[Connection], checkpointed: Sequence[int]) -> _Moved:
    moved = _Moved(old, len(new))
    writers = [LogWriter(scope, last) for scope, last in zip(new, moved.last, strict=True)]
    pieces = (_pieces(partition, scope) for partition, scope in enumerate(old))
    for _, partition, last, piece in heapq.merge(*pieces, key=lambda piece: piece[:2]):
        arrival = last - len(piece["device"]) + 1 + np.arange(len(piece["device"]))
        target = piece["device"].astype(np.int64) % len(new)
        for new_partition in np.unique(target).tolist():
            mine = np.flatnonzero(target == new_partition)
            became = writers[new_partition].write({name: column[mine] for name, column in piece.items()})
            moved.note(partition, arrival[mine], new_partition, became, checkpointed[partition])
            moved.gaps[new_partition] += int(np.count_nonzero(piece["verdict"][mine] == GAP))
    for writer in writers:
        writer.flush()
    return moved


def _pieces(partition: int, scope: Connection) -> Iterator[tuple[int, int, int, Columns]]:
    """Yield a partition's log in pieces, each with a time that never decreases, by which logs are merged."""
    latest = 0
    for last, piece in read_columns(scope):
        yield latest, partition, last, piece
        latest = max(latest, int(piece["received"].max()))


class _Spread:
    """Writes rows to the partitions of their devices, many at a time. The device is the first column."""

    def __init__(self, new: Sequence[Connection], table: str, names: Sequence[str]) -> None:
        self._new, self._table, self._names = new, table, names
        self._rows: list[list[Row]] = [[] for _ in new]

    def add(self, row: Row) -> None:
        """Add a row to its device's partition."""
        partition = row[0] % len(self._new)
        self._rows[partition].append(row)
        if len(self._rows[partition]) >= _AT_ONCE:
            self._write(partition)

    def flush(self) -> None:
        """Write the remaining rows."""
        for partition in range(len(self._new)):
            self._write(partition)

    def _write(self, partition: int) -> None:
        self._new[partition].insert(self._table, self._names, self._rows[partition])
        self._rows[partition] = []


def _copy_devices(
    scope: Connection, new: Sequence[Connection], table: str, arrivals: Mapping[int, int], shift: int
) -> None:
    names = _OF_DEVICES[table]
    moving = [names.index(name) for name in _ARRIVALS.get(table, ())]
    spread = _Spread(new, table, names)
    for found in scope.stream(f"SELECT {', '.join(names)} FROM {{{table}}} AS copied"):
        row = list(found)
        for place in moving:
            row[place] = arrivals[row[place]]
        if table == "device":
            row[names.index("first_tick")] += shift
        spread.add(tuple(row))
    spread.flush()


def _copy_exposures(old: Sequence[Connection], new: Sequence[Connection]) -> Counter[int]:
    """Copy exposures once each; return by verdict how many copies from other partitions were dropped."""
    digest, verdict = _EXPOSURE.index("digest"), _EXPOSURE.index("verdict")
    known: set[tuple[int, bytes]] = set()
    dropped: Counter[int] = Counter()
    spread = _Spread(new, "exposure", _EXPOSURE)
    for scope in old:
        for row in scope.stream(f"SELECT {', '.join(_EXPOSURE)} FROM {{exposure}} AS exposure ORDER BY id"):
            key = (row[0] % len(new), row[digest])
            if row[digest] is not None and key in known:
                dropped[row[verdict]] += 1
                continue
            known.add(key)
            spread.add(row)
    spread.flush()
    return dropped


def _copy_rollups(old: Sequence[Connection], new: Sequence[Connection], bucket_seconds: int) -> Extent:
    """Copy the roll-ups and add the tails. New ones reach as far as the furthest old ones."""
    extents = [read_extent(scope, bucket_seconds) for scope in old]
    extent = Extent(
        bucket_seconds,
        summed=END,
        built=max(each.built for each in extents),
        fine_from=max(each.fine_from for each in extents),
    )
    for scope, reached in zip(old, extents, strict=True):
        for level, table in levels_upto(scope, reached, extent):
            partition = table.device % len(new)
            for place in np.unique(partition).tolist():
                write_level(new[place], level, table.at(partition == place))
    return extent


def _write_sums(
    source: Connection, new: Sequence[Connection], dropped: Counter[int], gaps: Sequence[int], extent: Extent
) -> None:
    """Write tallies and counters. Sums without a device go to the first partition."""
    counters = {kind: Counter(values) for kind, values in read_counters(source).items()}
    before = counters.get("pruned_gap", Counter())[0]
    tallies = [recount_tallies(scope, extent) for scope in new]
    verdicts = [_verdicts(scope) for scope in new]
    judged = counters.get("verdict", Counter())
    for mine in verdicts[1:]:
        judged.subtract(mine)
    for partition, scope in enumerate(new):
        add_tallies(scope, extent, tallies[partition])
        add_counts(scope, "verdict", verdicts[partition] if partition else judged)
        gone = tallies[partition].withdrawn_plus + tallies[partition].withdrawn_minus
        add_counts(scope, "withdrawn", {0: int(gone.sum())})
        add_counts(scope, "gap", {0: gaps[partition] + (0 if partition else before)})
        rows = scope.rows(_HELD)
        add_counts(scope, "held", {blamed: count for blamed, count, _ in rows})
        add_counts(scope, "held_bytes", {blamed: size for blamed, _, size in rows})
    add_counts(new[0], "pruned_gap", {0: before})
    add_counts(new[0], "dropped", counters.get("dropped", Counter()) + dropped)
    add_counts(new[0], "replayed", counters.get("replayed", Counter()))


_HELD = "SELECT blamed, COUNT(*), CAST(SUM(LENGTH(raw)) AS BIGINT) FROM {exposure} AS exposure GROUP BY blamed"
_REFUSED = "SELECT verdict, CAST(SUM(reports) AS BIGINT) FROM {refused} AS refused GROUP BY verdict"
_ACCEPTED = """SELECT CAST(COALESCE(SUM(accepted), 0) AS BIGINT), CAST(COALESCE(SUM(held), 0) AS BIGINT)
               FROM {progress} AS progress"""


def _verdicts(scope: Connection) -> Counter[int]:
    """Return reports by verdict: logged ones from the devices' counts, others from the quarantine."""
    found: Counter[int] = Counter(dict(scope.rows(_REFUSED)))
    (found[int(Verdict.ACCEPTED)], found[int(Verdict.HELD)]) = scope.rows(_ACCEPTED)[0]
    held = scope.rows("SELECT verdict, COUNT(*) FROM {exposure} AS exposure GROUP BY verdict")
    found.update({verdict: count for verdict, count in held if verdict not in LOGGED})
    return found
