# SPDX-License-Identifier: MIT
"""The desk of verified coins: the gateway's part of SPEC section 13.5, within one transaction.

A report of a verified profile is *held* once it has passed the layers that judge its bytes. When its time bucket has ended, the desk
challenges all held reports of the device as one group. The group leaves the desk when every coin in it is opened. Only then its reports
enter the log, with the opened answers, through the same screening as all others. So nothing that is published counts a held report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from peel_core import Opened, Profile, index_many
from peel_core.coin_receipts import MAX_CHALLENGE_RUNS, CoinReceipt, write_coin_receipt
from peel_core.coins import (
    AUDIT_ANSWER,
    BATCH_NUMBERS,
    COMMITMENT,
    OPENING,
    ROOT_BYTES,
    audit_many,
    challenge_indices,
    challenge_key,
    challenge_seed,
    coin_names,
    coin_roots,
    verify_openings,
)
from peel_core.kinds import SIGN
from peel_core.receipts import Receipt
from peel_gateway.model.coins import (
    GROUPED,
    NO_COIN,
    UNGROUPED,
    UNOPENED,
    CoinBatch,
    CoinDevice,
    CoinEffects,
    HeldReports,
)
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.decode_context import DecodeContext
from peel_gateway.screening.layers import OPEN
from peel_gateway.storage.store import Transaction

__all__ = [
    "CoinDesk",
    "Recalled",
    "answers_another_audit",
    "codeword_of",
    "coin_receipt",
    "masked_answers",
    "reserve",
    "runs_of",
]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Run = tuple[int, int]

_IN_FLIGHT = 2 * BATCH_NUMBERS
"""Numbers beyond its reserve that a device may have, as reports that use others are under way."""
_LONGEST = 65_535
"""The most numbers of a run, and from one run to the next."""
_DUE_AT_ONCE = 1000
"""Devices that are challenged in one transaction."""


def reserve(profile: Profile) -> int:
    """Return how many numbers a device of this profile holds that may have a report, in whole batches."""
    return -(-profile.reserve // BATCH_NUMBERS) * BATCH_NUMBERS


@dataclass(frozen=True)
class Recalled:
    """Held reports that leave the desk and count now, and numbers of theirs that an audit has revealed."""

    reports: HeldReports
    """With the opened answer in place of the masked one; `NO_COIN` stays."""
    revealed_device: Ints
    revealed: Ints


class CoinDesk:
    """Takes messages, holds reports, and challenges groups. `write` stores the changes."""

    def __init__(self, transaction: Transaction, context: DecodeContext, moment: GatewayTime) -> None:
        root = context.keyring.challenge_root
        assert root is not None, "a keyring with verified profiles has it"
        self._transaction = transaction
        self._context = context
        self._keyring = context.keyring
        self._bucket_of = {profile.id: profile.bucket for profile in context.keyring.profiles}
        self._now = moment.seen
        self._key = challenge_key(root, transaction.era)
        self._devices: dict[int, CoinDevice] = {}
        self._held: dict[int, dict[int, list[int]]] = {}
        self._stored: set[tuple[int, int]] = set()
        self._dirty: set[tuple[int, int]] = set()
        self._gone: list[tuple[int, int]] = []
        self._touched: set[int] = set()
        self._effects = CoinEffects()
        self._recalled: list[list[int]] = []

    # ---- state ----

    def load(self, devices: Iterable[int]) -> None:
        """Read the coins of devices that are not in memory."""
        missing = np.array(sorted(set(devices) - self._devices.keys()), np.int64)
        if not len(missing):
            return
        self._devices |= {device: CoinDevice(device) for device in missing.tolist()}
        self._devices |= self._transaction.coins(missing)
        self._held |= {device: {} for device in missing.tolist()}
        held = self._transaction.held(missing)
        for row in zip(*(column.tolist() for column in vars(held).values()), strict=True):
            self._held[row[0]][row[1]] = list(row)
            self._stored.add((row[0], row[1]))

    def state(self, device: int) -> CoinDevice:
        """Return the coins of a loaded device."""
        return self._devices[device]

    def write(self) -> None:
        """Store all changes."""
        effects = self._effects
        for device in self._touched:
            self._schedule(device)
            self._close_batches(device)
        effects.devices = [self._devices[device] for device in sorted(self._touched)]
        rows = [self._held[device][number] for device, number in sorted(self._dirty) if number in self._held[device]]
        effects.changed = [_table(rows)]
        gone = [(device, number) for device, number in self._gone if (device, number) in self._stored]
        effects.counted = [_table([[device, number, *[0] * 7] for device, number in gone])]
        self._transaction.write_coins(effects)
        self._effects = CoinEffects()

    def _schedule(self, device: int) -> None:
        """Note when the next group of a device may be challenged."""
        state, held = self._devices[device], self._held[device]
        waits = [self._end(row) for row in held.values() if row[_CHALLENGE] == UNGROUPED]
        busy = state.waiting is not None or any(row[_CHALLENGE] != UNGROUPED for row in held.values())
        state.due = 0 if busy or not waits else min(waits)
        if state.waiting is None and not state.seed:
            state.asked = 0

    def _end(self, row: Sequence[int]) -> int:
        """Return when the time bucket of a held report has ended, Unix seconds."""
        bucket = self._bucket_of[row[_PROFILE]]
        return (row[_RECEIVED] // 1000 // bucket + 1) * bucket

    def _close_batches(self, device: int) -> None:
        """Forget batches that no report can come from any more: the oldest, beyond twice the reserve."""
        state, held = self._devices[device], self._held[device]
        position = int(self._keyring.profile_of[np.searchsorted(self._keyring.device_ids, device)])
        most = 2 * reserve(self._keyring.profiles[position]) // BATCH_NUMBERS + 2
        while len(state.batches) > most:
            oldest = state.batches[0]
            if any(oldest.first <= number <= oldest.last for number in held):
                return
            self._effects.closed.append((device, oldest.first))
            del state.batches[0]

    # ---- messages ----

    def take(self, opened: Opened, rows: Ints) -> Ints:
        """Take messages, given by their rows. Return verdicts: `COIN` for those that expose their device, `OPEN` for all others."""
        verdicts = np.full(len(rows), OPEN)
        self.load(opened.device[rows].tolist())
        for kind, take in ((AUDIT_ANSWER, self._answers), (OPENING, self._openings), (COMMITMENT, self._commitments)):
            for position in np.unique(opened.profile[rows]).tolist():
                mine = np.flatnonzero((opened.type[rows] == kind) & (opened.profile[rows] == position))
                if len(mine):
                    verdicts[mine] = take(opened, rows[mine], position)
        return verdicts

    def _commitments(self, opened: Opened, rows: Ints, position: int) -> Ints:
        bodies = opened.messages(rows, BATCH_NUMBERS * ROOT_BYTES)
        profile = self._keyring.profiles[position]
        numbers = opened.number[rows].astype(np.int64)
        devices = opened.device[rows]
        same = self._keyring.find(devices, numbers) == self._keyring.find(devices, numbers + BATCH_NUMBERS - 1)
        taken = []
        for at, (device, first) in enumerate(zip(devices.tolist(), numbers.tolist(), strict=True)):
            state = self._devices[device]
            enough = state.free >= reserve(profile) + _IN_FLIGHT or len(self._held[device]) >= self._most_held(profile)
            if first > state.committed and same[at] and self._is_new_bundle(state, first):
                self._drop(state)
            if first > state.committed and state.waiting is None and not enough and same[at]:
                state.committed = first + BATCH_NUMBERS - 1
                state.batches.append(CoinBatch(first, 0, False))
                taken.append(at)
        if taken:
            headers = _headers(profile.id, devices[taken], numbers[taken], COMMITMENT)
            audits = audit_many(self._key, headers, bodies[taken], profile.audits)
            for at, audit in zip(taken, audits.tolist(), strict=True):
                device, first = int(devices[at]), int(numbers[at])
                state = self._devices[device]
                state.batches[-1] = CoinBatch(first, audit, False)
                state.asked = self._now
                self._effects.commitments.append((device, first, bodies[at].tobytes()))
                self._touched.add(device)
        return np.full(len(rows), OPEN)

    def _most_held(self, profile: Profile) -> int:
        """Return the held reports beyond which a device gets no new numbers: it has to open their coins first."""
        per_bucket = -(-profile.quota * profile.bucket // profile.period)
        return 2 * (reserve(profile) + per_bucket)

    def _is_new_bundle(self, state: CoinDevice, first: int) -> bool:
        """Return whether a commitment is the first of a bundle that was issued after those of the device's batches."""
        if not state.batches:
            return False
        before, now = self._keyring.find([state.device] * 2, [state.batches[-1].first, first]).tolist()
        return bool(before != now)

    def _drop(self, state: CoinDevice) -> None:
        """Drop what a device with a fresh bundle cannot answer any more: its batches are void, and its held reports never count."""
        for number in list(self._held[state.device]):
            del self._held[state.device][number]
            self._gone.append((state.device, number))
        self._effects.closed += [(state.device, batch.first) for batch in state.batches]
        state.make_void()
        self._touched.add(state.device)

    def _answers(self, opened: Opened, rows: Ints, position: int) -> Ints:
        profile = self._keyring.profiles[position]
        asked = []
        for at, (device, first) in enumerate(
            zip(opened.device[rows].tolist(), opened.number[rows].astype(np.int64).tolist(), strict=True)
        ):
            waiting = self._devices[device].waiting
            if waiting is not None and waiting.first == first:
                asked.append((at, device, waiting))
        verdicts = np.full(len(rows), OPEN)
        if not asked:
            return verdicts
        seeds = opened.messages(rows[[at for at, _, _ in asked]], 16 * profile.audits).reshape(-1, 16)
        devices = np.repeat([device for _, device, _ in asked], profile.audits).astype(np.uint32)
        numbers = np.array([number for _, _, batch in asked for number in batch.revealed], np.int64)
        stored = self._transaction.roots([(device, batch.first) for _, device, batch in asked])
        committed = [
            stored[device, batch.first][ROOT_BYTES * place : ROOT_BYTES * (place + 1)]
            for _, device, batch in asked
            for place in range(BATCH_NUMBERS)
            if batch.audit >> place & 1
        ]
        seeds = np.ascontiguousarray(seeds)
        made = coin_roots(self._names(profile, devices, numbers), seeds)
        right = (made == np.frombuffer(b"".join(committed), np.uint8).reshape(-1, ROOT_BYTES)).all(axis=1)
        fitting = right.reshape(-1, profile.audits).all(axis=1)
        for place, ((at, device, batch), fits) in enumerate(zip(asked, fitting, strict=True)):
            if not fits:
                names = self._names(
                    profile, np.full(BATCH_NUMBERS, device, np.uint32), np.arange(batch.first, batch.last + 1)
                )
                roots = np.frombuffer(stored[device, batch.first], np.uint8).reshape(-1, ROOT_BYTES)
                given = seeds[profile.audits * place : profile.audits * (place + 1)]
                if not answers_another_audit(names, roots, given):
                    verdicts[at] = Verdict.COIN
                continue
            state = self._devices[device]
            if state.waiting is batch:
                state.batches[-1] = replace(batch, approved=True)
                state.approved = batch.first
                self._touched.add(device)
                self._go_on(device)
        return verdicts

    def _openings(self, opened: Opened, rows: Ints, position: int) -> Ints:
        profile = self._keyring.profiles[position]
        verdicts = np.full(len(rows), OPEN)
        asked: dict[tuple[int, int], int] = {}
        for at, key in enumerate(
            zip(opened.device[rows].tolist(), opened.number[rows].astype(np.int64).tolist(), strict=True)
        ):
            row = self._held[key[0]].get(key[1])
            if row is not None and row[_CHALLENGE] > 0 and row[_OUTCOME] == UNOPENED and row[_MASKED] != NO_COIN:
                asked.setdefault(key, at)
        if not asked:
            return verdicts
        held = _table([self._held[device][number] for device, number in asked])
        names, sizes = self._names_of(profile, held)
        seeds = np.frombuffer(b"".join(self._devices[device].seed for device, _ in asked), np.uint8).reshape(-1, 16)
        indices = challenge_indices(seeds, held.number, sizes)
        bodies = opened.messages(rows[list(asked.values())], profile.opening_bytes)
        outcomes = verify_openings(self._roots(list(asked)), names, indices, bodies)
        for (device, number), at, outcome in zip(asked, asked.values(), outcomes.tolist(), strict=True):
            if outcome < 0:
                verdicts[at] = Verdict.COIN
                continue
            self._held[device][number][_OUTCOME] = outcome
            self._dirty.add((device, number))
            self._touched.add(device)
        for device in {device for device, _ in asked}:
            self._go_on(device)
        return verdicts

    # ---- reports ----

    def has_approved(self, devices: npt.NDArray[np.uint32], numbers: Ints) -> Bools:
        """Return True for each number of an approved batch that its audit has not revealed."""
        self.load(devices.tolist())
        found = []
        for device, number in zip(devices.tolist(), numbers.tolist(), strict=True):
            batch = self._devices[device].batch_of(number)
            found.append(batch is not None and batch.approved and not batch.has_revealed(number))
        return np.array(found, np.bool_)

    def hold(self, reports: HeldReports) -> Ints:
        """Hold reports under approved numbers. Return a verdict for each: `OPEN` if it is held, or `REDELIVERED` or `REUSED`."""
        self.load(reports.device.tolist())
        verdicts = np.full(len(reports), OPEN)
        for at, row in enumerate(zip(*(column.tolist() for column in vars(reports).values()), strict=True)):
            device, number = row[0], row[1]
            state, before = self._devices[device], self._held[device].get(number)
            if before is not None:
                same = before[_BODY] == row[_BODY]
                verdicts[at] = Verdict.REDELIVERED if same else Verdict.REUSED
                continue
            self._held[device][number] = list(row)
            self._dirty.add((device, number))
            self._touched.add(device)
            state.reported = max(state.reported, number)
        return verdicts

    # ---- challenges ----

    def challenge(self) -> Sequence[int]:
        """Challenge the groups that are due. Return the devices."""
        now = self._now // 1000
        due: list[int] = self._transaction.coins_due(now, _DUE_AT_ONCE).tolist()
        self.load(due)
        for device in due:
            group = [
                row for row in self._held[device].values() if row[_CHALLENGE] == UNGROUPED and self._end(row) <= now
            ]
            for row in group:
                row[_CHALLENGE] = GROUPED
                self._dirty.add((device, row[_NUMBER]))
            self._touched.add(device)
            self._go_on(device)
        return due

    def _go_on(self, device: int) -> None:
        """Go on with a device's group: wait for openings, ask for the next part, or let the group count."""
        state = self._devices[device]
        group = [row for row in self._held[device].values() if row[_CHALLENGE] != UNGROUPED]
        if not group or any(
            row[_CHALLENGE] > 0 and row[_OUTCOME] == UNOPENED and row[_MASKED] != NO_COIN for row in group
        ):
            return
        state.seed, state.opened = b"", state.challenges
        self._touched.add(device)
        left = sorted((row for row in group if row[_CHALLENGE] == GROUPED), key=lambda row: row[_NUMBER])
        if any(row[_MASKED] != NO_COIN for row in left):
            if state.waiting is None:  # an audit that waits holds all challenges back
                self._ask(state, left)
            return
        for row in group:
            del self._held[device][row[_NUMBER]]
            self._gone.append((device, row[_NUMBER]))
        self._recalled += group

    def _ask(self, state: CoinDevice, group: Sequence[list[int]]) -> None:
        """Challenge as many reports of a group as fit into one receipt."""
        part = group[: _fitting(runs_of(state, group))]
        state.challenges += 1
        for row in part:
            row[_CHALLENGE] = state.challenges
            self._dirty.add((state.device, row[_NUMBER]))
        coins = _table([row for row in part if row[_MASKED] != NO_COIN])
        roots = self._roots(list(zip(coins.device.tolist(), coins.number.tolist(), strict=True)))
        state.seed = challenge_seed(
            self._key, state.device, state.challenges, coins.number, roots, coins.masked.astype(np.uint8)
        )
        state.asked = self._now

    def recalled(self) -> Recalled:
        """Return the reports that count now, each once, with the numbers up to them that audits have revealed."""
        rows, self._recalled = _table(self._recalled), []
        answer = rows.masked.copy()
        for profile in self._keyring.profiles:
            coins = np.flatnonzero((rows.profile == profile.id) & (rows.masked != NO_COIN))
            outcomes = _outcomes(profile, rows.unit[coins])
            answer[coins] = (rows.outcome[coins] + rows.masked[coins]) % outcomes
        devices, revealed = [], []
        for device in np.unique(rows.device).tolist():
            highest = int(rows.number[rows.device == device].max())
            numbers = [n for batch in self._devices[device].batches if batch.approved for n in batch.revealed]
            numbers = [number for number in numbers if number < highest]
            devices += [device] * len(numbers)
            revealed += numbers
        reports = HeldReports(**{**vars(rows), "masked": answer})
        return Recalled(reports, np.array(devices, np.int64), np.array(revealed, np.int64))

    # ---- coins ----

    def _names(self, profile: Profile, devices: npt.NDArray[np.uint32], numbers: Ints) -> Bytes:
        """Return the names of the coins of numbers."""
        bundles = self._keyring.find(devices, numbers)
        unit = index_many(profile, devices, self._keyring.keys.of(bundles), numbers).astype(np.int64)
        return _coin_names(profile, devices, numbers, unit)

    def _names_of(self, profile: Profile, held: HeldReports) -> tuple[Bytes, Ints]:
        names = _coin_names(profile, held.device.astype(np.uint32), held.number, held.unit)
        sizes = names[:, 14].astype(np.int64) + (names[:, 16].astype(np.int64) - 1) * names[:, 15]
        return names, sizes

    def _roots(self, keys: Sequence[tuple[int, int]]) -> Bytes:
        """Return the committed roots of reports, given by device and number."""
        batches = [self._devices[device].batch_of(number) for device, number in keys]
        firsts = [batch.first if batch is not None else 0 for batch in batches]
        stored = self._transaction.roots([(key[0], first) for key, first in zip(keys, firsts, strict=True)])
        found = [
            stored[device, first][ROOT_BYTES * (number - first) : ROOT_BYTES * (number - first + 1)]
            for (device, number), first in zip(keys, firsts, strict=True)
        ]
        return np.frombuffer(b"".join(found), np.uint8).reshape(-1, ROOT_BYTES)


_NUMBER, _PROFILE, _MASKED, _RECEIVED, _BODY, _CHALLENGE, _OUTCOME = 1, 2, 4, 5, 6, 7, 8
"""Places of columns in a row of `HeldReports`."""


def _table(rows: Sequence[Sequence[int]]) -> HeldReports:
    if not rows:
        return HeldReports.nothing()
    return HeldReports(*(np.ascontiguousarray(column) for column in np.array(rows, np.int64).T))


def _outcomes(profile: Profile, unit: Ints) -> Ints:
    """Return the number of outcomes of each unit's coin."""
    outcomes = np.array([block.outcomes for block in profile.blocks], np.int64)
    return np.broadcast_to(outcomes[profile.block_of_unit(unit)], unit.shape)


def _coin_names(profile: Profile, devices: npt.NDArray[np.uint32], numbers: Ints, unit: Ints) -> Bytes:
    block = profile.block_of_unit(unit)
    keep, change, symbols = (
        np.broadcast_to(np.array([getattr(each, name) for each in profile.blocks], np.int64)[block], unit.shape)
        for name in ("keep", "change", "outcomes")
    )
    return coin_names(profile.id, devices, numbers, keep, change, symbols)


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


def masked_answers(profile: Profile, unit: Ints, column: Ints, sign: Ints) -> Ints:
    """Return the masked answers that codewords, decoded to (column, sign), carry; `NO_COIN` without a reading."""
    blocks, of = profile.blocks, np.broadcast_to(profile.block_of_unit(unit), unit.shape)
    first = np.array([block.first_column for block in blocks], np.int64)[of]
    signed = np.array([block.form == SIGN for block in blocks], np.bool_)[of]
    return np.where(column == profile.k, NO_COIN, np.where(signed, sign > 0, column - first))


def codeword_of(profile: Profile, unit: Ints, answer: Ints) -> tuple[Ints, Ints]:
    """Return the column and the sign of answers: the inverse of `masked_answers`."""
    blocks, of = profile.blocks, np.broadcast_to(profile.block_of_unit(unit), unit.shape)
    first_column = np.array([block.first_column for block in blocks], np.int64)[of]
    first_unit = np.array([block.first_unit for block in blocks], np.int64)[of]
    signed = np.array([block.form == SIGN for block in blocks], np.bool_)[of]
    column = first_column + np.where(signed, unit - first_unit, answer)
    sign = np.where(signed & (answer == 0), -1, 1)
    none = answer == NO_COIN
    return np.where(none, profile.k, column), np.where(none, 1, sign)


def runs_of(state: CoinDevice, part: Sequence[Sequence[int]]) -> list[tuple[int, int, int]]:
    """Return the runs of a challenge of these held reports: first and last number, and how many reports it has up to there.

    Revealed numbers, and reports without a reading, do not end a run.
    """
    silent = {row[_NUMBER] for row in part if row[_MASKED] == NO_COIN}
    silent |= {number for batch in state.batches for number in batch.revealed}
    runs: list[tuple[int, int, int]] = []
    for count, row in enumerate(sorted(part, key=lambda row: row[_NUMBER]), start=1):
        number = row[_NUMBER]
        if row[_MASKED] == NO_COIN:
            if runs:
                runs[-1] = (*runs[-1][:2], count)
            continue
        joins = runs and number - runs[-1][0] < _LONGEST
        if joins and all(between in silent for between in range(runs[-1][1] + 1, number)):
            runs[-1] = (runs[-1][0], number, count)
        else:
            runs.append((number, number, count))
    return runs


def _fitting(runs: Sequence[tuple[int, int, int]]) -> int:
    """Return how many reports the first runs have that fit into one receipt."""
    count = 0
    for place, (first, _, upto) in enumerate(runs[:MAX_CHALLENGE_RUNS]):
        if place and first - runs[place - 1][1] - 1 > _LONGEST:
            break
        count = upto
    return count


def coin_receipt(key: bytes, era: bytes, settled: Receipt, state: CoinDevice, held: HeldReports) -> bytes:
    """Return the receipt of a device with verified coins (SPEC section 13.3)."""
    waiting = state.waiting
    asked: list[list[int]] = []
    if state.seed:
        chosen = held.at(held.challenge == state.challenges)
        asked = [list(row) for row in zip(*(column.tolist() for column in vars(chosen).values()), strict=True)]
    return write_coin_receipt(
        key,
        state.device,
        CoinReceipt(
            settled=settled,
            era=era,
            approved=state.approved,
            audit_first=waiting.first if waiting else 0,
            audit=waiting.audit if waiting else 0,
            opened=state.opened,
            challenge_seed=state.seed,
            challenge=tuple((first, last) for first, last, _ in runs_of(state, asked)),
        ),
    )
