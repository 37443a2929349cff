# SPDX-License-Identifier: MIT
"""Verified coins: the gateway's part of SPEC section 13.5, within one transaction.

A report of a verified profile passes all layers when it is stored, and is *held* if none objects. Its number is used from then on. When
its time bucket has ended, all held reports of the device are challenged as one group. They count together, once every coin of the group
is opened. So nothing that is published counts a held report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Opened, Profile, index_many
from peel_core.coin_receipts import MAX_CHALLENGE_RUNS, write_coin_receipts
from peel_core.coins import (
    AUDIT_ANSWER,
    BATCH_NUMBERS,
    COMMITMENT,
    OPENING,
    ROOT_BYTES,
    audit_many,
    challenge_indices,
    challenge_key,
    challenge_seeds,
    coin_names,
    coin_roots,
    verify_openings,
)
from peel_gateway.model.coins import (
    ASKED,
    BATCH,
    GROUPED,
    NO_COIN,
    UNGROUPED,
    UNOPENED,
    WAITING,
    Batches,
    CoinTable,
    Ragged,
    Records,
    bits_of,
)
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.tables import DeviceIds, Positions, Slots
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.batch import Batch, Revealed
from peel_gateway.screening.decode_context import DecodeContext, RowCache, slots_of
from peel_gateway.screening.layers import OPEN
from peel_gateway.screening.numbers import AckRanges
from peel_gateway.screening.state_cache import StateCache
from peel_gateway.storage.store import Transaction

__all__ = ["CoinCache", "VerifiedCoins", "answers_another_audit", "coin_receipts", "due_span", "reserve"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

_IN_FLIGHT = 2 * BATCH_NUMBERS
"""Numbers beyond its reserve that a device may have, as reports that use others are under way."""
_MOST_GAP = 65_535
"""The most numbers from one run of a challenge to the next."""
_STRETCH = 15
"""A run lies within 2^15 numbers that differ in their low bits only."""
_DUE_AT_ONCE = 5000
"""Devices that are challenged in one transaction."""
_MOST_ROWS = 120_000
"""Devices whose coins are kept in memory."""
_NONE = np.iinfo(np.int64).max


def reserve(profile: Profile) -> int:
    """Return how many numbers a device of this profile holds that may have a report, in whole batches."""
    return -(-profile.reserve // BATCH_NUMBERS) * BATCH_NUMBERS


def due_span(now: int, keyring: Keyring) -> tuple[int, int]:
    """Return the present in Unix seconds, and the latest end of a time bucket that has begun; `now` is in milliseconds.

    A bucket that ends later is from a clock that was set back since: its reports do not wait for that time.
    """
    return now // 1000, now // 1000 + max(profile.bucket for profile in keyring.profiles)


class CoinCache:
    """The coins of recently active devices, and the lowest held number of each device by the end of its time bucket."""

    def __init__(self, context: DecodeContext, transaction: Transaction) -> None:
        slots = len(context.keyring.device_ids)
        self._context = context
        self.era = transaction.era
        self._row_cache = RowCache(slots, 0)
        self._table = CoinTable.new(np.zeros(0, np.int64))
        self.changed = np.zeros(0, np.bool_)
        """True for each row that is not stored yet."""
        self._used = np.zeros(0, np.int64)
        self._turn = 0
        self._lowest: dict[int, Ints] = {}
        for due, records in transaction.held_records():
            slot = slots_of(context.keyring, DeviceIds(records["device"].astype(np.int64)))
            self.note_held(due, Slots(slot[slot >= 0]), records["number"][slot >= 0].astype(np.int64))

    @property
    def table(self) -> CoinTable:
        """All entries, by row. `rows` may replace it."""
        return self._table

    def rows(self, slots: Slots, transaction: Transaction) -> tuple[CoinTable, Ints]:
        """Return all entries, and the rows of distinct slots (ascending) among them; read those that are not in memory."""
        absent = Slots(slots[self._row_cache.absent(slots)])
        if len(absent):
            self._load(absent, transaction)
        rows = self._row_cache.rows(slots)
        self._turn += 1
        self._used[rows] = self._turn
        return self._table, rows

    def find(self, slots: Slots) -> CoinTable | None:
        """Return the entries of distinct slots (ascending) if all of them are in memory."""
        return None if self._row_cache.absent(slots).any() else self._table.at(self._row_cache.rows(slots))

    def _load(self, slots: Slots, transaction: Transaction) -> None:
        rows = self._row_cache.assign(slots)
        added = len(self._row_cache.slot) - len(self._used)
        if added:
            new = CoinTable.new(np.zeros(added, np.int64))
            self._table = CoinTable(
                **{name: np.concatenate([column, getattr(new, name)]) for name, column in vars(self._table).items()}
            )
            self.changed = np.append(self.changed, np.zeros(added, np.bool_))
            self._used = np.append(self._used, np.zeros(added, np.int64))
        ids = self._context.ids(slots)
        self._table.put(rows, CoinTable.new(ids))
        stored = transaction.coins(ids)
        self._table.put(rows[np.searchsorted(ids, stored.device)], stored)
        self.changed[rows] = False

    def forget(self, slots: Slots) -> None:
        """Forget slots whose entries another part of this transaction has written."""
        known = Slots(slots[~self._row_cache.absent(slots)])
        rows = self._row_cache.rows(known)
        self._row_cache.free(known)
        self.changed[rows] = False

    def write(self, transaction: Transaction) -> None:
        """Store what has changed. If there is too much in memory, forget the longest idle devices."""
        rows = np.flatnonzero(self.changed)
        if len(rows):
            rows = rows[np.argsort(self._table.device[rows])]
            transaction.put_coins(self._table.at(rows))
            self.changed[rows] = False
        self._row_cache.evict(_MOST_ROWS, self._used, np.ones(len(self._used), np.bool_))

    def note_held(self, due: int, slots: Slots, numbers: Ints) -> None:
        """Note held reports of a time bucket that ends at `due`."""
        lowest = self._lowest.setdefault(due, np.full(len(self._context.keyring.device_ids), _NONE))
        np.minimum.at(lowest, slots, numbers)

    def note_taken(self, now: int, latest: int) -> None:
        """Note that no report is held any more whose time bucket has ended by `now` or ends after `latest`."""
        self._lowest = {due: lowest for due, lowest in self._lowest.items() if now < due <= latest}

    def lowest_held(self, slots: Slots) -> Ints:
        """Return the lowest held number of each slot, a huge number without one."""
        found = np.full(len(slots), _NONE)
        for lowest in self._lowest.values():
            found = np.minimum(found, lowest[slots])
        return found


@dataclass
class _Group:
    """Waiting reports of some devices."""

    slots: Slots
    rows: Ints
    """In the cache."""
    reports: Ragged
    """`WAITING` records by device and number; owners are positions in `slots`."""
    changed: Bools
    """True for each device whose reports have changed."""

    @property
    def records(self) -> Records:
        return self.reports.records

    @property
    def unopened(self) -> Bools:
        """True for each report whose coin is not opened."""
        return np.asarray((self.records["masked"] != NO_COIN) & (self.records["outcome"] == UNOPENED))

    def keep(self, rows: Bools) -> None:
        """Drop all other reports."""
        self.changed |= self.reports.any(~rows)
        self.reports = self.reports.only(rows)


class VerifiedCoins:
    """Takes messages, holds reports, and challenges groups. `write` stores the changes.

    Parameters
    ----------
    hear : callable
        Is told which devices (ids) have news, so that they get a receipt.
    """

    def __init__(
        self,
        transaction: Transaction,
        cache: StateCache,
        coins: CoinCache,
        moment: GatewayTime,
        hear: Callable[[Ints], None],
    ) -> None:
        keyring = cache.context.keyring
        assert keyring.challenge_root is not None, "a keyring with verified profiles has it"
        self._transaction = transaction
        self._cache = cache
        self._coins = coins
        self._keyring = keyring
        self._now = moment.seen
        self._key = challenge_key(keyring.challenge_root, coins.era)
        self._hear = hear
        self._counted: list[tuple[Ints, Records]] = []
        self._ready = np.zeros(0, np.int64)
        self._contradictions: dict[tuple[int, int], dict[str, Any]] = {}

    def contradicted(self, device: int, number: int) -> dict[str, Any]:
        """Return what a message of this transaction contradicts, given by the number in its header, as evidence."""
        return self._contradictions.get((device, number), {})

    def write(self) -> None:
        """Store all changes."""
        self._coins.write(self._transaction)

    def _batches(self, slots: Slots) -> Batches:
        table, rows = self._coins.rows(slots, self._transaction)
        return Batches.of_devices(table.batches[rows])

    def void(self, devices: Ints) -> None:
        """Make the batches of devices (ascending ids) void: their held reports never count."""
        slots = slots_of(self._keyring, DeviceIds(devices))
        self.write()
        self._transaction.void_coins(devices)
        self._coins.forget(slots)
        self._cache.forget_held(slots)

    # ---- messages ----

    def take(self, opened: Opened, rows: Ints) -> Ints:
        """Take messages, given by their rows. Return verdicts: `COIN` for those that expose their device, `OPEN` for all others."""
        verdicts = np.full(len(rows), OPEN)
        taking = (
            (AUDIT_ANSWER, self._take_answers),
            (OPENING, self._take_openings),
            (COMMITMENT, self._take_commitments),
        )
        for kind, take in taking:
            for position in np.unique(opened.profile[rows]).tolist():
                mine = np.flatnonzero((opened.type[rows] == kind) & (opened.profile[rows] == position))
                if len(mine):
                    slots, at = np.unique(opened.slot[rows[mine]].astype(np.int64), return_inverse=True)
                    verdicts[mine] = take(opened, rows[mine], position, Slots(slots), at)
        self._advance(self._ready)
        return verdicts

    def _take_commitments(self, opened: Opened, rows: Ints, position: int, slots: Slots, at: Ints) -> Ints:
        profile, verdicts = self._keyring.profiles[position], np.full(len(rows), OPEN)
        numbers, devices = opened.number[rows].astype(np.int64), opened.device[rows]
        bundle = self._keyring.find(devices, numbers)
        whole = bundle == self._keyring.find(devices, numbers + BATCH_NUMBERS - 1)
        table, place = self._coins.rows(slots, self._transaction)
        fits = whole & (numbers > table.committed[place][at])
        newest = Batches.of_devices(table.batches[place]).newest[at]
        replaced = fits & (newest > 0) & (self._keyring.find(devices, newest) != bundle)
        if replaced.any():  # the first commitment of a fresh bundle: the device cannot answer for older ones
            self.void(np.unique(devices[replaced]).astype(np.int64))
            table, place = self._coins.rows(slots, self._transaction)
        batches, states = Batches.of_devices(table.batches[place]), self._cache.gather(slots)
        per_bucket = -(-profile.quota * profile.bucket // profile.period)
        enough = batches.free(states.last_number) >= reserve(profile) + _IN_FLIGHT
        enough |= states.held >= 2 * (reserve(profile) + per_bucket)  # it has to open their coins first
        taken = _first_of_each(np.flatnonzero(fits & ~(enough | batches.waiting)[at]), at)
        if len(taken):
            bodies = opened.messages(rows[taken], BATCH_NUMBERS * ROOT_BYTES)
            headers = _headers(profile.id, devices[taken], numbers[taken], COMMITMENT)
            record = np.zeros(len(taken), BATCH)
            record["first"], record["audit"] = numbers[taken], audit_many(self._key, headers, bodies, profile.audits)
            own = place[at[taken]]
            table.committed[own] = numbers[taken] + BATCH_NUMBERS - 1
            table.asked[own] = np.where(table.asked[own] > 0, table.asked[own], self._now)
            for row, data in zip(own.tolist(), _split(record), strict=True):
                table.batches[row] += data
            self._coins.changed[own] = True
            self._transaction.put_roots(devices[taken].astype(np.int64), numbers[taken], bodies)
        return verdicts

    def _take_answers(self, opened: Opened, rows: Ints, position: int, slots: Slots, at: Ints) -> Ints:
        profile, verdicts = self._keyring.profiles[position], np.full(len(rows), OPEN)
        table, place = self._coins.rows(slots, self._transaction)
        batches = Batches.of_devices(table.batches[place])
        answers = batches.waiting[at] & (batches.newest[at] == opened.number[rows].astype(np.int64))
        asked = _first_of_each(np.flatnonzero(answers), at)
        if not len(asked):
            return verdicts
        seeds = np.ascontiguousarray(opened.messages(rows[asked], 16 * profile.audits).reshape(-1, 16))
        devices, begin = opened.device[rows[asked]], opened.number[rows[asked]].astype(np.int64)
        audited = bits_of(batches.records["audit"][batches.ends[at[asked]] - 1])
        of, bit = np.nonzero(audited)
        roots = self._transaction.roots(devices.astype(np.int64), begin)
        made = coin_roots(self._names(profile, devices[of], begin[of] + bit), seeds)
        fits = (made == roots[of, bit]).all(axis=1).reshape(-1, profile.audits).all(axis=1)
        for each in np.flatnonzero(~fits).tolist():
            names = self._names(profile, np.full(BATCH_NUMBERS, devices[each]), begin[each] + np.arange(BATCH_NUMBERS))
            given = seeds[profile.audits * each : profile.audits * (each + 1)]
            if not answers_another_audit(names, roots[each], given):
                verdicts[asked[each]] = Verdict.COIN
                audit = int(batches.records["audit"][batches.ends[at[asked[each]]] - 1])
                evidence = {"audit": audit, "roots": roots[each].tobytes().hex()}
                self._contradictions[int(devices[each]), int(begin[each])] = evidence
        own = place[at[asked[fits]]]
        table.approved[own] = begin[fits]
        table.asked[own] = np.where(table.challenge[own] == b"", 0, table.asked[own])
        for row in own.tolist():
            table.batches[row] = table.batches[row][:-1] + b"\1"
        self._coins.changed[own] = True
        self._ready = np.union1d(self._ready, slots[at[asked[fits]]])
        return verdicts

    def _take_openings(self, opened: Opened, rows: Ints, position: int, slots: Slots, at: Ints) -> Ints:
        profile, verdicts = self._keyring.profiles[position], np.full(len(rows), OPEN)
        group = self._load_group(slots)
        number = opened.number[rows].astype(np.int64)
        found = group.reports.find(at, number, "number")
        records = group.records
        waits = group.unopened & (records["step"] == ASKED) & (records["profile"] == profile.id)
        asked = np.flatnonzero(found >= 0)
        asked = asked[waits[found[asked]] & (records["number"][found[asked]] == number[asked].astype(np.uint64))]
        if not len(asked):
            return verdicts
        found, own = found[asked], group.rows[at[asked]]
        unit = records["unit"][found].astype(np.int64)
        names = _coin_names(profile, opened.device[rows[asked]], number[asked], unit)
        seeds = np.frombuffer(b"".join(data[:16] for data in self._coins.table.challenge[own]), np.uint8).reshape(
            -1, 16
        )
        indices = challenge_indices(seeds, number[asked], _table_sizes(names))
        bodies = opened.messages(rows[asked], profile.opening_bytes)
        outcomes = verify_openings(np.ascontiguousarray(records["root"][found]), names, indices, bodies)
        right = outcomes >= 0
        verdicts[asked[~right]] = Verdict.COIN
        for each in np.flatnonzero(~right).tolist():
            evidence = {"root": records["root"][found[each]].tobytes().hex(), "challenge": seeds[each].tobytes().hex()}
            self._contradictions[int(opened.device[rows[asked[each]]]), int(number[asked[each]])] = evidence
        records["outcome"][found[right]] = outcomes[right]
        group.changed[at[asked[right]]] = True
        self._advance_group(group)
        return verdicts

    # ---- reports ----

    def refuse_uncommitted(self, opened: Opened, rows: Ints) -> Ints:
        """Return `UNCOMMITTED` for reports whose number is in no approved batch, or was revealed, and `OPEN` for all others."""
        slots, at = np.unique(opened.slot[rows].astype(np.int64), return_inverse=True)
        batches = self._batches(Slots(slots))
        allowed = batches.may_report(at, opened.number[rows].astype(np.int64))
        return np.where(allowed, OPEN, int(Verdict.UNCOMMITTED))

    def revealed(self, batch: Batch) -> Revealed:
        """Return the numbers that audits have revealed, of sending devices, between their last number and their highest one now."""
        last = batch.states.last_number
        highest = last.copy()
        np.maximum.at(highest, batch.at[batch.order], batch.number[batch.order])
        at, number = self._batches(batch.senders).revealed(last, highest)
        return Revealed(Positions(at), number)

    def hold(self, records: Records) -> None:
        """Hold reports until their time bucket ends."""
        if not len(records):
            return
        now, due = self._now // 1000, np.zeros(len(records), np.int64)
        for profile in self._keyring.profiles:
            due[records["profile"] == profile.id] = (now // profile.bucket + 1) * profile.bucket
        for each in np.unique(due).tolist():
            mine = records[due == each]
            self._transaction.append_held(each, mine)
            slots = slots_of(self._keyring, DeviceIds(mine["device"].astype(np.int64)))
            self._coins.note_held(each, slots, mine["number"].astype(np.int64))

    # ---- groups ----

    def challenge(self) -> None:
        """Take out reports whose time bucket has ended, and challenge the groups that they make."""
        now, latest = due_span(self._now, self._keyring)
        due = self._transaction.due_reports(now, latest)
        slots = slots_of(self._keyring, DeviceIds(due.records["device"].astype(np.int64)))
        known = slots >= 0
        ended = np.unique(slots[known])
        if due.pieces:
            self._transaction.remove_due_reports(due)
        if due.complete:
            self._coins.note_taken(now, latest)
            ids = self._transaction.due_devices(_DUE_AT_ONCE)
            ended = np.union1d(ended, slots_of(self._keyring, DeviceIds(ids)))
        ended = Slots(ended[ended >= 0])
        if not len(ended):
            return
        group = self._load_group(ended)
        self._add(group, due.records[known], np.searchsorted(ended, slots[known]))
        self._advance_group(group, later=(np.arange(len(ended)) >= _DUE_AT_ONCE) | (not due.complete))

    def _add(self, group: _Group, records: Records, at: Ints) -> None:
        """Add reports whose time bucket has ended. Those of void batches are dropped."""
        batches = Batches.of_devices(self._coins.table.batches[group.rows])
        number = records["number"].astype(np.int64)
        alive = batches.may_report(at, number)
        records, at, number = records[alive], at[alive], number[alive]
        if not len(records):
            return
        batch = batches.batch_of(at, number)
        which, of = np.unique(batch, return_inverse=True)
        roots = self._transaction.roots(self._device_ids(group)[batches.at[which]], batches.first[which])
        added = np.zeros(len(records), WAITING)
        for name in WAITING.names or ():
            if name in (records.dtype.names or ()):
                added[name] = records[name]
        added["step"], added["outcome"] = UNGROUPED, UNOPENED
        added["root"] = roots[of, number - batches.first[batch]]
        owner = np.concatenate([group.reports.at, at])
        joined = np.concatenate([group.records, added])
        order = np.lexsort((joined["number"], owner))
        group.reports = Ragged.made(joined[order], np.bincount(owner, minlength=len(group.slots)))
        group.changed[at] = True

    def _device_ids(self, group: _Group) -> Ints:
        return self._cache.context.ids(group.slots)

    def _load_group(self, slots: Slots) -> _Group:
        _, rows = self._coins.rows(slots, self._transaction)
        ids = self._cache.context.ids(slots)
        devices, data = self._transaction.waiting(ids)
        packed = np.full(len(slots), b"", np.object_)
        packed[np.searchsorted(ids, devices)] = data
        return _Group(slots, rows, Ragged.of(packed, WAITING), np.zeros(len(slots), np.bool_))

    def _advance(self, slots: Ints) -> None:
        """Go on with the groups of devices."""
        if len(slots):
            self._advance_group(self._load_group(Slots(slots)))
        self._ready = np.zeros(0, np.int64)

    def _advance_group(self, group: _Group, *, later: Bools | None = None) -> None:
        """Go on with each group: wait for openings, ask for its next part, or let it count and begin the next one.

        Parameters
        ----------
        later : bool, shape (D,), optional
            Devices whose groups begin in another transaction.
        """
        later = np.zeros(len(group.slots), np.bool_) if later is None else later
        table, rows = self._coins.table, group.rows
        before = table.at(rows)
        answered = ~group.reports.any(group.unopened & (group.records["step"] == ASKED))
        was_open = answered & (table.challenge[rows] != b"")
        table.challenge[rows[was_open]] = b""
        table.opened[rows[was_open]] = table.challenges[rows[was_open]]
        table.asked[rows[was_open]] = 0
        self._count_complete(group, answered)
        table.due[rows] = answered & later & group.reports.any(group.unopened)
        begins = answered & ~later & ~group.reports.any(group.records["step"] != UNGROUPED)
        started = begins[group.reports.at]
        group.records["step"][started] = GROUPED
        group.changed |= group.reports.any(started)
        group.keep(
            ~(begins & ~group.reports.any(group.unopened))[group.reports.at]
        )  # without a coin there is no challenge
        waits = Batches.of_devices(table.batches[rows]).waiting
        asks = answered & ~later & group.reports.any(group.unopened & (group.records["step"] == GROUPED))
        self._ask(group, asks & ~waits)
        table.asked[rows] = np.where(waits & (table.asked[rows] == 0), self._now, table.asked[rows])
        self._close_batches(group)
        changed = np.zeros(len(rows), np.bool_)
        for name in ("challenges", "opened", "asked", "due", "challenge", "batches"):
            changed |= getattr(before, name) != getattr(table, name)[rows]
        self._coins.changed[rows[changed]] = True
        ids = self._device_ids(group)
        self._hear(ids[changed])
        some = np.flatnonzero(group.changed)
        if len(some):
            mine = group.changed[group.reports.at]
            kept = Ragged.made(group.records[mine], group.reports.counts[some])
            self._transaction.put_waiting(ids[some], kept)

    def _count_complete(self, group: _Group, answered: Bools) -> None:
        """Let the groups count whose coins are all opened."""
        step = group.records["step"]
        complete = answered & ~group.reports.any(group.unopened & (step == GROUPED)) & group.reports.any(step == ASKED)
        leaving = complete[group.reports.at] & (step != UNGROUPED)
        counted = leaving & (group.records["masked"] != NO_COIN)
        if counted.any():
            self._counted.append((self._device_ids(group)[group.reports.at[counted]], group.records[counted]))
        group.keep(~leaving)

    def _ask(self, group: _Group, devices: Bools) -> None:
        """Challenge as many reports of each group as fit into one receipt."""
        if not devices.any():
            return
        table, records, of = self._coins.table, group.records, group.reports.at
        rows = np.flatnonzero(devices[of] & (records["step"] == GROUPED) & group.unopened)
        at, number = of[rows], records["number"][rows].astype(np.int64)
        begins, fits = self._runs(group, at, number)
        records["step"][rows[fits]] = ASKED
        rows, at, number, begins = rows[fits], at[fits], number[fits], begins[fits]
        group.changed |= devices
        asked = np.flatnonzero(devices)
        own = group.rows[asked]
        table.challenges[own] += 1
        table.asked[own] = self._now
        reports = np.zeros((len(rows), 23), np.uint8)
        reports[:, :6] = number.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :6]
        reports[:, 6:22], reports[:, 22] = records["root"][rows], records["masked"][rows]
        ends = np.searchsorted(at, asked, side="right")
        seeds = challenge_seeds(self._key, self._device_ids(group)[asked], table.challenges[own], reports, ends)
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(rows)) - 1
        runs = np.stack([number[first], number[last]], axis=1).astype("<i8")
        run_ends = np.searchsorted(at[first], asked, side="right")
        for row, seed, begin, end in zip(
            own.tolist(), seeds, [0, *run_ends[:-1].tolist()], run_ends.tolist(), strict=True
        ):
            table.challenge[row] = seed.tobytes() + runs[begin:end].tobytes()

    def _runs(self, group: _Group, at: Ints, number: Ints) -> tuple[Bools, Bools]:
        """Return which reports begin a run of their device's challenge, and which fit into it.

        Revealed numbers, and reports without a reading, do not end a run.
        """
        begins = np.ones(len(number), np.bool_)
        if len(number) > 1:
            same = (at[1:] == at[:-1]) & (number[1:] >> _STRETCH == number[:-1] >> _STRETCH)
            begins[1:] = ~same | (np.diff(number) - 1 != np.diff(self._silent_before(group, at, number)))
        device = np.diff(at, prepend=-1) != 0
        far = begins & ~device
        far[1:] &= np.diff(number) - 1 > _MOST_GAP
        run, jumps = np.cumsum(begins), np.cumsum(far)
        start = np.maximum.accumulate(np.where(device, np.arange(len(at)), 0))
        return begins, (run - run[start] < MAX_CHALLENGE_RUNS) & (jumps == jumps[start])

    def _silent_before(self, group: _Group, at: Ints, number: Ints) -> Ints:
        """Count the revealed numbers and the reports without a reading before each report, over all devices so far."""
        lowest, highest = np.full(len(group.slots), _NONE), np.zeros(len(group.slots), np.int64)
        np.minimum.at(lowest, at, number)
        np.maximum.at(highest, at, number)
        batches = Batches.of_devices(self._coins.table.batches[group.rows])
        silent_at, silent = batches.revealed(lowest, highest)
        bare = group.records["masked"] == NO_COIN
        all_at = np.concatenate([at, silent_at, group.reports.at[bare]])
        numbers = np.concatenate([number, silent, group.records["number"][bare].astype(np.int64)])
        order = np.lexsort((numbers, all_at))
        before = np.empty(len(order), np.int64)
        before[order] = np.cumsum(order >= len(at))
        return before[: len(at)]

    def _close_batches(self, group: _Group) -> None:
        """Forget batches that no report can come from any more: the oldest, beyond twice the reserve."""
        table = self._coins.table
        batches = Batches.of_devices(table.batches[group.rows])
        most = np.array([2 * reserve(profile) // BATCH_NUMBERS + 2 for profile in self._keyring.profiles], np.int64)
        surplus = batches.counts - most[self._keyring.profile_of[group.slots]]
        if not (surplus > 0).any():
            return
        lowest = self._coins.lowest_held(group.slots)
        if len(group.records):
            np.minimum.at(lowest, group.reports.at, group.records["number"].astype(np.int64))
        rank = np.arange(len(batches.at)) - batches.begins[batches.at]
        ends = batches.first + BATCH_NUMBERS - 1
        closed = (rank < surplus[batches.at]) & (ends < lowest[batches.at])
        if closed.any():
            self._transaction.remove_roots(self._device_ids(group)[batches.at[closed]], batches.first[closed])
            kept = batches.only(~closed).packed()
            for place in np.unique(batches.at[closed]).tolist():
                table.batches[group.rows[place]] = kept[place]

    def counted(self) -> tuple[Ints, Records] | None:
        """Return the reports that count now, each once, with their devices, by device and number; None without any."""
        if not self._counted:
            return None
        device, records = (np.concatenate(parts) for parts in zip(*self._counted, strict=True))
        self._counted = []
        order = np.lexsort((records["number"], device))
        return device[order], records[order]

    # ---- coins ----

    def _names(self, profile: Profile, devices: npt.NDArray[np.uint32], numbers: Ints) -> Bytes:
        """Return the names of the coins of numbers."""
        bundles = self._keyring.find(devices, numbers)
        unit = index_many(profile, devices, self._keyring.keys.of(bundles), numbers).astype(np.int64)
        return _coin_names(profile, devices, numbers, unit)


def _first_of_each(rows: Ints, at: Ints) -> Ints:
    """Return the first of some rows for each position."""
    _, first = np.unique(at[rows], return_index=True)
    return np.asarray(rows[np.sort(first)])


def _split(records: Records) -> list[bytes]:
    size, data = records.dtype.itemsize, records.tobytes()
    return [data[place : place + size] for place in range(0, len(data), size)]


def _coin_names(profile: Profile, devices: npt.NDArray[np.uint32], numbers: Ints, unit: Ints) -> Bytes:
    block = profile.block_of_unit(unit)
    keep, change, symbols = (
        np.broadcast_to(np.array([getattr(each, name) for each in profile.blocks], np.int64)[block], unit.shape)
        for name in ("keep", "change", "outcomes")
    )
    return coin_names(profile.id, devices, numbers, keep, change, symbols)


def _table_sizes(names: Bytes) -> Ints:
    """Return the number of outcomes in each table, from the names of its coins."""
    keep, change, symbols = (names[:, place].astype(np.int64) for place in (14, 15, 16))
    return keep + (symbols - 1) * change


def _headers(profile: int, devices: npt.NDArray[np.uint32], numbers: Ints, kind: int) -> Bytes:
    """Return the headers of messages, shape (N, 16)."""
    names = coin_names(profile, devices, numbers, 2, 1, 2)
    front = np.tile(np.array([0x10, kind], np.uint8), (len(devices), 1))
    return np.ascontiguousarray(np.concatenate([front, names[:, :14]], axis=1))


def answers_another_audit(names: Bytes, roots: Bytes, seeds: Bytes) -> bool:
    """Return whether seeds are those of other numbers of a batch than the audited ones, in ascending order.

    Such an answer contradicts nothing. A restored gateway may have lost a batch with its audit. If the commitment and the answer to
    that audit arrive again, the gateway asks for another audit of the same batch.

    Parameters
    ----------
    names : uint8, shape (32, 20)
        The names of the coins of the batch.
    roots : uint8, shape (32, 16)
        The committed roots.
    seeds : uint8, shape (a, 16)
        The revealed seeds.
    """
    made = coin_roots(np.tile(names, (len(seeds), 1)), np.repeat(seeds, len(names), axis=0))
    which, places = np.nonzero((made.reshape(len(seeds), len(names), ROOT_BYTES) == roots).all(axis=2))
    return which.tolist() == list(range(len(seeds))) and bool((np.diff(places) > 0).all())


def coin_receipts(keys: Bytes, era: bytes, devices: Ints, settled: AckRanges, table: CoinTable) -> Sequence[bytes]:
    """Return the receipts of devices with verified coins (SPEC section 13.3), one entry per device in all arguments."""
    batches = Batches.of_devices(table.batches)
    waits = batches.waiting
    audits = batches.records["audit"][batches.ends - 1] if len(batches.records) else np.zeros(len(devices), np.uint32)
    return write_coin_receipts(
        keys,
        devices,
        settled.upto,
        settled.runs,
        settled.run_ends,
        era=era,
        approved=table.approved,
        audit_first=np.where(waits, batches.newest, 0),
        audit=np.where(waits, audits, 0),
        opened=table.opened,
        challenges=list(table.challenge),
    )
