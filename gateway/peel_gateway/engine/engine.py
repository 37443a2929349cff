# SPDX-License-Identifier: MIT
"""The engine: screens a batch of messages and commits it in one transaction."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from peel_core import Opened, open_joined
from peel_core.primitives import NUMBER_MAX
from peel_core.receipts import write_receipts
from peel_gateway.engine.clock import Reading, advance, read_clock
from peel_gateway.engine.coins import CoinCache, VerifiedCoins, coin_receipts, due_span
from peel_gateway.logs import Log
from peel_gateway.model.coins import CoinTable, Records
from peel_gateway.model.exposure import Exposure
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.messages import Message, MessageBatch, Senders
from peel_gateway.model.tables import Aged, DeviceIds, DeviceStates, LogTable, Slots
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening import bucketing
from peel_gateway.screening.batch import front, listen, speakers
from peel_gateway.screening.counting import count_opened
from peel_gateway.screening.decode_context import DecodeContext, DeviceSource, slots_of
from peel_gateway.screening.device_tests import bases
from peel_gateway.screening.e_process import DamagedTestState
from peel_gateway.screening.judge import ExposedDevice, judge
from peel_gateway.screening.layers import OPEN, Policy
from peel_gateway.screening.numbers import ack_ranges_of, used_numbers
from peel_gateway.screening.precheck import MOST_PIECES, precheck
from peel_gateway.screening.state_cache import CACHE_BYTES, StateCache, states_of
from peel_gateway.storage.store import Store, StoreCorrupt, Transaction

__all__ = ["BatchReport", "Engine", "look_up", "reading_stored"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_DAY = 86_400.0
_REMINDER_MINUTES = 15

_log = Log("engine")


@dataclass(frozen=True, kw_only=True)
class BatchReport:
    """The outcome of a batch."""

    messages: int
    reports: int
    """Frames and faulty pieces."""
    counts: Mapping[Verdict, int]
    """Reports by verdict; verdicts without reports are absent."""
    exposed_devices: Sequence[ExposedDevice]
    """Devices that this batch exposed."""
    gaps: int
    """Numbers that were settled as missing."""
    dropped: int
    """Pieces that left the full quarantine."""
    generation: int
    seconds: float
    """Time from decode to commit."""
    senders: Senders
    """Devices whose reports could be opened: they get receipts."""


class Engine:
    """Screens batches and writes each in one transaction.

    Parameters
    ----------
    store : Store
        The engine writes to it and caches device states. Other processes may write too.
    residual_limit : float
        Largest relative residual of a codeword. Honest ones are below 1e-3 (a sound seed proves it), altered ones above 1e-2.
    alpha : float
        Largest probability of ever exposing an honest device by statistics.
    accept_unsealed : bool
        Accept unsealed frames from devices that never sent a sealed one. For the lab and closed networks.
    withdraw_faulty : bool
        Whether a report that only the device itself can have made (rule, support, structure, reused, flood) withdraws the device, as
        the statistics do. If not, the report is refused and the device only marked.
    number_allowance : int
        Numbers granted once per device beyond its quota, and more if its time of enrolment is unknown.
    cache_bytes : int
        Bytes of memory for device states. The longest idle devices are evicted, and read from the store when they report again.
    clock : callable
        Reads the machine's clocks, for the token bucket.

    Only `load`, `adopt`, `process` and `prune` change the engine. Call them from one thread at a time.
    """

    def __init__(
        self,
        store: Store,
        *,
        residual_limit: float = 3e-3,
        alpha: float = 1e-6,
        accept_unsealed: bool = False,
        withdraw_faulty: bool = True,
        number_allowance: int = 64,
        cache_bytes: int = CACHE_BYTES,
        clock: Callable[[], Reading] = read_clock,
    ) -> None:
        self.store = store
        self._policy = Policy(
            residual_limit=residual_limit,
            alpha=alpha,
            withdraw_faulty=withdraw_faulty,
            number_allowance=number_allowance,
            bucket_seconds=store.bucket_seconds,
        )
        self._accept_unsealed = accept_unsealed
        self._capacity = cache_bytes
        self._clock = clock
        self.moment = GatewayTime()
        self._context: DecodeContext | None = None
        self._cache: StateCache | None = None
        self._coins: CoinCache | None = None
        """Valid as long as the cache is."""
        self._reminded = 0
        """When unanswered devices were last looked for, in minutes of Unix time."""
        self._marked: int | None = None
        """The time bucket in which the mark of the database was last renewed."""

    def load(self, registry: DeviceSource) -> None:
        """Use these devices, profiles and revocations from now on. Call again when they have changed.

        Raises `numpy.linalg.LinAlgError` for a profile whose projection cannot be inverted, and then changes nothing.
        """
        self.adopt(self.ready(registry))

    def ready(self, registry: DeviceSource) -> DecodeContext:
        """Prepare a registry for `adopt`. Slow; may run on any thread. Raises as `load` does."""
        return DecodeContext.of(registry, self._context)

    def adopt(self, context: DecodeContext) -> None:
        """Use these devices from now on."""
        self._context = context
        self._cache = None

    def process(self, messages: MessageBatch | Sequence[Message], *, taken: Sequence[int] = ()) -> BatchReport:
        """Screen messages and commit all effects in one transaction.

        Parameters
        ----------
        taken : sequence of int
            Ids of the exposures that these messages come from (replay). They are removed in the same transaction.

        Raises
        ------
        StoreError
            Nothing was applied. Call again with the same messages, or give up without acknowledging them.
        """
        started = time.perf_counter()
        if self._context is None:
            raise RuntimeError("the engine has no devices yet; call load first")
        messages = messages if isinstance(messages, MessageBatch) else MessageBatch.of(messages)
        opened = open_joined(
            self._context.keyring, messages.payloads, messages.payload_ends, accept_unsealed=self._accept_unsealed
        )
        with self.store.begin() as transaction:
            before = transaction.clock()
            moment = advance(before, self._clock())
            verified = self._has_verified(self._context)
            if verified:
                self._mark(transaction, moment)
            cache = self._current_cache(self._context, transaction)
            coins = self._current_coins(cache, transaction) if verified else None
            self._cache = None  # from here on it changes: without a commit it differs from the store
            if cache.overdue:
                transaction.checkpoint(*cache.checkpoint())
                cache.note_checkpoint()
            transaction.take(taken)
            turn = _Turn(transaction, cache, coins, self._policy, moment)
            # Replayed pieces left the quarantine: all that are still refused must go back.
            turn.screen(messages, opened, most_pieces=len(opened) if taken else MOST_PIECES)
        self._note_time(before, moment)
        self._marked = moment.seen // 1000 // self._policy.bucket_seconds
        self._cache, self._coins = cache, coins
        return turn.report(len(messages), len(opened), time.perf_counter() - started)

    def challenge(self) -> BatchReport | None:
        """Challenge the verified coins of reports whose time bucket has ended. Return None if there are none.

        Call it often, between two batches. It writes only if there is something to challenge.
        """
        if self._context is None or not self._has_verified(self._context):
            return None
        now = advance(self.moment, self._clock()).seen
        if not self.store.has_due_coins(*due_span(now, self._context.keyring)):
            return None
        return self.process(MessageBatch.of([]))

    def reminders(self) -> Senders:
        """Return devices whose receipt is to be repeated: an audit or challenge is unanswered for 1, 2, 4, ... minutes.

        The receipt may be lost, and a device that has nothing else to send would not get another. If the clock was set back meanwhile, a
        device is reminded every 15 minutes. Call it often; it looks once a minute.
        """
        now, before = self._clock().wall // 60_000, self._reminded
        if now == before or self._context is None or not self._has_verified(self._context):
            return Senders.nothing()
        asked = self.store.unanswered()
        self._reminded = now
        devices = np.array(sorted(asked), np.int64)
        since = np.array([asked[device] for device in devices.tolist()], np.int64) // 60_000
        steps, taken = (np.frexp(np.maximum(minute - since, 0))[1] for minute in (now, before))
        set_back = (since > now) & (now // _REMINDER_MINUTES > before // _REMINDER_MINUTES)
        devices = devices[(steps > taken) | set_back]
        return Senders.of(devices, np.full(len(devices), NUMBER_MAX))

    @staticmethod
    def _has_verified(context: DecodeContext) -> bool:
        return any(profile.verified for profile in context.keyring.profiles)

    def _mark(self, transaction: Transaction, moment: GatewayTime) -> None:
        """Begin an era of verified coins in a new or restored database; renew the mark once per time bucket (SPEC section 13.5).

        A database that was restored must not challenge again what its device has already answered.
        """
        if self._marked is None and not (any(transaction.era) and transaction.mark in self.store.marks()):
            lost = transaction.begin_era(moment.seen // 1000)
            transaction.renew_mark(self.store.next_mark(None))
            _log.info("an era of verified coins begins; committed batches are void", held_reports_lost=lost)
        elif self._marked is None or moment.seen // 1000 // self._policy.bucket_seconds != self._marked:
            transaction.renew_mark(self.store.next_mark(transaction.mark))

    def receipts(self, senders: Senders) -> list[tuple[int, bytes]] | None:
        """Return receipts (specification, section 11) as device and payload; None before the first batch and after a failed one.

        The key is that of the newest bundle with a stored report: the device that sent it has that key.
        """
        if self._cache is None:
            return None
        self.store.verify_place()  # a device deletes what a receipt names
        keyring = self._cache.context.keyring
        senders = senders.only(slots_of(keyring, senders.device) >= 0)
        verified = self._verified(senders)
        return [*self._plain_receipts(senders.only(~verified)), *self._coin_receipts(senders.only(verified))]

    def _plain_receipts(self, senders: Senders) -> Iterator[tuple[int, bytes]]:
        assert self._cache is not None
        keyring = self._cache.context.keyring
        states = self._states(self._cache, senders.device)
        said = ack_ranges_of(used_numbers(states), senders.lowest)
        bundle = keyring.find(senders.device, states.last_number)  # -1 where nothing is stored
        receipts = write_receipts(senders.device, keyring.keys.receipt[bundle], said.upto, said.runs, said.run_ends)
        rows = zip(senders.device.tolist(), receipts, bundle.tolist(), strict=True)
        return ((device, receipt) for device, receipt, place in rows if place >= 0)

    def _verified(self, senders: Senders) -> Bools:
        """Return True for each device with a verified profile."""
        assert self._cache is not None
        keyring = self._cache.context.keyring
        verified = np.array([profile.verified for profile in keyring.profiles], np.bool_)
        return np.asarray(verified[keyring.profile_of[slots_of(keyring, senders.device)]])

    def _coin_receipts(self, senders: Senders) -> Iterator[tuple[int, bytes]]:
        """Return the receipts of devices with verified coins, by the key of the newest bundle with a commitment."""
        assert self._cache is not None
        if not len(senders.device):
            return iter(())
        keyring = self._cache.context.keyring
        era, table = self._coin_table(senders.device)
        bundle = keyring.find(senders.device, np.maximum(table.committed, 1))
        some = (table.committed > 0) & (bundle >= 0)
        senders, table, keys = senders.only(some), table.at(some), keyring.keys.receipt[bundle[some]]
        seen = used_numbers(self._states(self._cache, senders.device))
        settled = ack_ranges_of(seen, np.minimum(senders.lowest, seen.last_number))
        return zip(senders.device.tolist(), coin_receipts(keys, era, senders.device, settled, table), strict=True)

    def _coin_table(self, devices: DeviceIds) -> tuple[bytes, CoinTable]:
        """Return the era and the coins of devices (ascending), one entry each."""
        assert self._cache is not None
        slots = slots_of(self._cache.context.keyring, devices)
        if self._coins is not None and (known := self._coins.find(slots)) is not None:
            return self._coins.era, known
        era, stored = self.store.read_coins(devices)
        table = CoinTable.new(devices)
        table.put(np.searchsorted(devices, stored.device), stored)
        return era, table

    def _states(self, cache: StateCache, devices: DeviceIds) -> DeviceStates:
        """Return the states of devices (ascending) from the cache, or from the store if one of them was evicted."""
        slots = slots_of(cache.context.keyring, devices)
        if cache.row_cache.absent(slots).any():
            return states_of(devices, self.store.devices(devices))
        return cache.gather(slots)

    def prune(self, age_seconds: float | None, fine_seconds: float | None = None) -> int | None:
        """Delete older reports by whole days, build and coarsen roll-ups, delete unused number ranges, and return free pages.

        Parameters
        ----------
        age_seconds : float, optional
            Reports older than this leave the log.
        fine_seconds : float, optional
            Sums older than this are kept by whole days.

        Returns
        -------
        int or None
            The number of deleted reports; None if the wall clock is too doubtful for retention.
        """
        with self.store.begin() as transaction:
            before = transaction.clock()
            moment = advance(before, self._clock())
            transaction.set_clock(moment)
        self._note_time(before, moment)
        if moment.doubtful:
            return None
        now = moment.seen / 1000
        while self._roll_up(now):
            pass
        dropped = self._prune_log(now, age_seconds) if age_seconds else 0
        with self.store.begin() as transaction:
            if fine_seconds:
                transaction.drop_fine(now - fine_seconds)
            transaction.forget_bucket_spans(bucketing.kept_from(moment.seen, self._policy.bucket_seconds))
        while self._give_back():
            pass
        return dropped

    def _prune_log(self, now: float, age_seconds: float) -> int:
        """Delete old events a day at a time: each step writes the test states at the new beginning of the log."""
        step = min(_DAY, age_seconds / 10)
        before, dropped = (now - age_seconds) // step * step, 0
        while (aged := self._prune_some(before, now)).arrival:
            dropped += len(aged.log)
        return dropped

    def _roll_up(self, now: float) -> bool:
        with self.store.begin() as transaction:
            return transaction.roll_up(now)

    def _give_back(self) -> bool:
        with self.store.begin() as transaction:
            return transaction.give_back()

    def _prune_some(self, before: float, now: float) -> Aged:
        """Delete some old events, after computing the test states at the new beginning of the log."""
        with self.store.begin() as transaction:
            aged = transaction.aged(before, now)
            if aged.arrival:
                profiles = self._context.keyring.profiles if self._context else ()
                gone = np.unique(np.concatenate([aged.log.device, aged.gaps.device]))
                begins = bases(transaction.bases(gone), aged, transaction.devices(gone), profiles, self._policy.alpha)
                transaction.prune(aged, begins)
        return aged

    def _note_time(self, before: GatewayTime, moment: GatewayTime) -> None:
        """Remember the time, and log when the wall clock was set or is behind."""
        self.moment = moment
        if moment.behind and not before.behind:
            _log.warning(
                "clock behind: it is earlier than before the machine was off. Floods are not judged until it is set. If it is right, "
                "run `peel gateway clock --believe`"
            )
        if before.behind and not moment.behind:
            _log.info("clock right again", passed_seconds=(moment.seen - before.seen) / 1000)
        elif moment.stepped != before.stepped:
            _log.warning(
                "clock set, or the machine was off. Devices are granted the time that passed, and retention pauses for a day",
                by_seconds=(moment.seen - before.seen) / 1000,
                passed_seconds=(moment.tick - before.tick) / 1000,
            )

    def _current_coins(self, cache: StateCache, transaction: Transaction) -> CoinCache:
        """Return the cache of verified coins, read again if the other one was."""
        if self._coins is not None and cache is self._cache:
            return self._coins
        return CoinCache(cache.context, transaction)

    def _current_cache(self, context: DecodeContext, transaction: Transaction) -> StateCache:
        """Return the cache, read again if it is missing or another process has written."""
        generation = transaction.generation
        if self._cache is not None and self._cache.generation == generation:
            return self._cache
        arrival, checkpointed = transaction.arrival, transaction.checkpointed
        tail = transaction.events(StateCache.tail_begins(arrival, checkpointed))
        unstored = StateCache.unstored(tail, checkpointed)
        with reading_stored():
            return StateCache.open(
                context,
                alpha=self._policy.alpha,
                cache_bytes=self._capacity,
                generation=generation,
                devices=transaction.devices(unstored),
                device_tests=transaction.device_tests(unstored),
                checkpointed=checkpointed,
                arrival=arrival,
                tail=tail,
                totals=transaction.totals(),
            )


class _Turn:
    """One transaction of the engine: screens messages, then challenges and counts reports with verified coins."""

    def __init__(
        self,
        transaction: Transaction,
        cache: StateCache,
        coins: CoinCache | None,
        policy: Policy,
        moment: GatewayTime,
    ) -> None:
        self._transaction = transaction
        self._cache = cache
        self._policy = policy
        self._moment = moment
        self._counts: Counter[Verdict] = Counter()
        self._exposed: list[ExposedDevice] = []
        self._gaps = self._dropped = 0
        self._senders = Senders.nothing()
        self._coins = None if coins is None else VerifiedCoins(transaction, cache, coins, moment, self._hear)

    def screen(self, messages: MessageBatch, opened: Opened, *, most_pieces: int) -> None:
        """Screen messages and write all effects."""
        verdicts = front(opened, self._cache.context)
        if self._coins is None:
            self._judge(messages, opened, verdicts, None, most_pieces)
            return
        opened, verdicts, given = self._take_messages(self._coins, opened, verdicts)
        held = self._judge(messages, opened, verdicts, given, most_pieces)
        self._coins.hold(held)
        self._coins.challenge()
        self._count(self._coins)
        self._coins.write()

    def _judge(
        self, messages: MessageBatch, opened: Opened, verdicts: Ints, given: Ints | None, most_pieces: int
    ) -> Records:
        """Screen reports and write the effects. Return the reports to be held."""
        cache, moment = self._cache, self._moment
        look_up(cache, speakers(opened, verdicts), self._transaction)
        batch = listen(messages, opened, verdicts, cache, moment, given=given)
        if self._coins is not None:
            batch = replace(batch, revealed=self._coins.revealed(batch))
        prechecked = precheck(batch, cache, self._policy, moment, most_pieces=most_pieces)
        judgement = judge(prechecked, self._transaction.find(prechecked.questions))
        self._refuse_bypass(judgement.effects.log)
        written = self._transaction.write(
            replace(judgement.effects, exposures=[self._explained(each) for each in judgement.effects.exposures])
        )
        cache.apply(judgement.change, written.left, self._transaction.generation)
        self._counts.update(judgement.effects.counts)
        self._exposed += judgement.exposed_devices
        self._gaps += len(judgement.effects.gaps)
        self._dropped += written.dropped
        self._senders = self._senders.joined(Senders(cache.context.ids(batch.senders), batch.lowest))
        if self._coins is not None and judgement.effects.withdrawn:
            self._coins.void(np.array(sorted(judgement.effects.withdrawn), np.int64))
        return judgement.held[~np.isin(judgement.held["device"], judgement.effects.withdrawn)]

    # ---- verified coins ----

    def _explained(self, exposure: Exposure) -> Exposure:
        """Add what a message of verified coins contradicts to its evidence."""
        if self._coins is None or exposure.verdict != Verdict.COIN:
            return exposure
        contradicted = self._coins.contradicted(exposure.device, exposure.number)
        return replace(exposure, evidence={**exposure.evidence, **contradicted})

    def _refuse_bypass(self, log: LogTable) -> None:
        """Raise if a report of a verified profile would count without its coin. No layer lets one through; this makes it certain."""
        verified = [profile.id for profile in self._cache.context.keyring.profiles if profile.verified]
        if verified and ((log.verdict == Verdict.ACCEPTED) & np.isin(log.profile, verified)).any():
            raise RuntimeError("a report of a verified profile would count without its coin")

    def _take_messages(self, coins: VerifiedCoins, opened: Opened, verdicts: Ints) -> tuple[Opened, Ints, Ints]:
        """Take the messages of verified coins. Return the other pieces, with what the coins say about them.

        A message that exposes its device is among them. Those of withdrawn devices are dropped.
        """
        given = np.full(len(opened), OPEN)
        verified = np.array([profile.verified for profile in self._cache.context.keyring.profiles], np.bool_)
        mine = (verdicts == OPEN) & verified[opened.profile]
        if not mine.any():
            return opened, verdicts, given
        slots = Slots(opened.slot.astype(np.int64))
        look_up(self._cache, Slots(np.unique(slots[mine])), self._transaction)
        message = mine & (opened.type != 0)
        mine[mine] = self._cache.gather(Slots(slots[mine])).withdrawn == 0
        taken = np.flatnonzero(mine & message)
        if len(taken):
            self._hear(opened.device[taken])
            given[taken] = coins.take(opened, taken)
        reports = np.flatnonzero(mine & ~message)
        if len(reports):
            given[reports] = coins.refuse_uncommitted(opened, reports)
        stays = ~message | (given == Verdict.COIN)
        return opened.at(stays), verdicts[stays], given[stays]

    def _hear(self, devices: npt.NDArray[np.integer]) -> None:
        """Note that devices get a receipt."""
        ids = np.unique(devices).astype(np.int64)
        self._senders = self._senders.joined(Senders.of(ids, np.full(len(ids), NUMBER_MAX)))

    def _count(self, coins: VerifiedCoins) -> None:
        """Count reports whose coins are opened."""
        counted = coins.counted()
        if counted is None:
            return
        cache, (device, records) = self._cache, counted
        slots = slots_of(cache.context.keyring, DeviceIds(device))
        look_up(cache, Slots(np.unique(slots)), self._transaction)
        counts = cache.gather(slots).withdrawn == 0
        counts &= np.isin(records["profile"], cache.context.profile_ids())
        if not counts.any():
            return
        effects, change = count_opened(cache, device[counts], records[counts], self._moment)
        written = self._transaction.write(effects)
        cache.apply(change, written.left, self._transaction.generation)
        self._counts[Verdict.ACCEPTED] += len(effects.log)
        self._hear(device[counts])

    def report(self, messages: int, pieces: int, seconds: float) -> BatchReport:
        """Return the outcome."""
        return BatchReport(
            messages=messages,
            reports=pieces,
            counts={verdict: count for verdict, count in self._counts.items() if count},
            exposed_devices=self._exposed,
            gaps=self._gaps,
            dropped=self._dropped,
            generation=self._transaction.generation,
            seconds=seconds,
            senders=self._senders,
        )


def look_up(cache: StateCache, slots: Slots, transaction: Transaction) -> None:
    """Load the stored states of devices that the cache does not have in memory."""
    absent = cache.absent(slots)
    if len(absent):
        ids = cache.context.ids(absent)
        with reading_stored():
            cache.load(absent, transaction.devices(ids), transaction.device_tests(ids))


@contextmanager
def reading_stored() -> Iterator[None]:
    """Raise `StoreCorrupt` if stored events cannot be played on stored states."""
    try:
        yield
    except DamagedTestState as error:
        raise StoreCorrupt(f"the store is damaged: {error}; restore a copy") from error
