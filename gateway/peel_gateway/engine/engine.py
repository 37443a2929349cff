# SPDX-License-Identifier: MIT
"""The engine: screens a batch of messages and commits it in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import open_joined
from peel_core.receipts import write_receipts
from peel_gateway.engine.clock import Reading, advance, read_clock
from peel_gateway.logs import Log
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.messages import Message, MessageBatch, Senders
from peel_gateway.model.tables import Aged, DeviceIds, DeviceStates, Slots
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening import bucketing
from peel_gateway.screening.batch import front, listen, speakers
from peel_gateway.screening.decode_context import DecodeContext, DeviceSource, slots_of
from peel_gateway.screening.device_tests import bases
from peel_gateway.screening.e_process import DamagedTestState
from peel_gateway.screening.judge import ExposedDevice, judge
from peel_gateway.screening.layers import Policy
from peel_gateway.screening.numbers import ack_ranges_of, used_numbers
from peel_gateway.screening.precheck import MOST_PIECES, precheck
from peel_gateway.screening.state_cache import CACHE_BYTES, StateCache, states_of
from peel_gateway.storage.store import Store, StoreCorrupt, Transaction

__all__ = ["BatchReport", "Engine", "look_up", "reading_stored"]

Ints = npt.NDArray[np.int64]

_DAY = 86_400.0

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
            cache = self._current_cache(self._context, transaction)
            overdue = cache.overdue
            if overdue:
                transaction.checkpoint(*cache.checkpoint())
            before = transaction.clock()
            moment = advance(before, self._clock())
            transaction.take(taken)
            verdicts = front(opened, self._context)
            look_up(cache, speakers(opened, verdicts), transaction)
            batch = listen(messages, opened, verdicts, cache, moment)
            # Replayed pieces left the quarantine: all that are still refused must go back.
            prechecked = precheck(batch, cache, self._policy, moment, most_pieces=len(opened) if taken else MOST_PIECES)
            found = transaction.find(prechecked.questions)
            self._cache = None  # judging changes its states: without a commit they differ from the store's
            judgement = judge(prechecked, found)
            written = transaction.write(judgement.effects)
            generation = transaction.generation
        self._note_time(before, moment)
        self._cache = cache
        if overdue:
            cache.note_checkpoint()
        cache.apply(judgement.change, written.left, generation)
        return BatchReport(
            messages=len(messages),
            reports=len(opened),
            counts=judgement.effects.counts,
            exposed_devices=judgement.exposed_devices,
            gaps=len(judgement.effects.gaps),
            dropped=written.dropped,
            generation=generation,
            seconds=time.perf_counter() - started,
            senders=Senders(cache.context.ids(batch.senders), batch.lowest),
        )

    def receipts(self, senders: Senders) -> list[tuple[int, bytes]] | None:
        """Return receipts (specification, section 11) as device and payload; None before the first batch and after a failed one.

        The key is that of the newest bundle with a stored report: the device that sent it has that key.
        """
        if self._cache is None:
            return None
        self.store.verify_place()  # a device deletes what a receipt names
        keyring = self._cache.context.keyring
        senders = senders.only(slots_of(keyring, senders.device) >= 0)
        states = self._states(self._cache, senders.device)
        said = ack_ranges_of(used_numbers(states), senders.lowest)
        bundle = keyring.find(senders.device, states.last_number)  # -1 where nothing is stored
        keys = keyring.keys.receipt[bundle]
        receipts = write_receipts(senders.device, keys, said.upto, said.runs, said.run_ends)
        rows = zip(senders.device.tolist(), receipts, bundle.tolist(), strict=True)
        return [(device, receipt) for device, receipt, place in rows if place >= 0]

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
