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
from peel_gateway.model.heard import Heard
from peel_gateway.model.mail import Mail
from peel_gateway.model.message import Message
from peel_gateway.model.moment import Moment
from peel_gateway.model.tables import Aged
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening import filing
from peel_gateway.screening.batch import front, listen, speakers
from peel_gateway.screening.bets import Unplayable
from peel_gateway.screening.book import ROOM, Book, States, seen_in, states_of
from peel_gateway.screening.conduct import bases
from peel_gateway.screening.draft import draft
from peel_gateway.screening.exposures import MOST_PIECES
from peel_gateway.screening.plan import ExposedDevice, plan
from peel_gateway.screening.policy import Policy
from peel_gateway.screening.roster import Registry, Roster, slots_of
from peel_gateway.screening.statement import statement_of
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
    heard: Heard
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
    room : int
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
        room: int = ROOM,
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
        self._room = room
        self._clock = clock
        self.moment = Moment()
        self._roster: Roster | None = None
        self._book: Book | None = None

    def load(self, registry: Registry) -> None:
        """Use these devices, profiles and revocations from now on. Call again when they have changed.

        Raises `numpy.linalg.LinAlgError` for a profile whose projection cannot be inverted, and then changes nothing.
        """
        self.adopt(self.ready(registry))

    def ready(self, registry: Registry) -> Roster:
        """Prepare a registry for `adopt`. Slow; may run on any thread. Raises as `load` does."""
        return Roster.of(registry, self._roster)

    def adopt(self, roster: Roster) -> None:
        """Use these devices from now on."""
        self._roster = roster
        self._book = None

    def process(self, messages: Mail | Sequence[Message], *, taken: Sequence[int] = ()) -> BatchReport:
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
        if self._roster is None:
            raise RuntimeError("the engine has no devices yet; call load first")
        mail = messages if isinstance(messages, Mail) else Mail.of(messages)
        opened = open_joined(
            self._roster.keyring, mail.payloads, mail.payload_ends, accept_unsealed=self._accept_unsealed
        )
        with self.store.begin() as transaction:
            book = self._current_book(self._roster, transaction)
            overdue = book.overdue
            if overdue:
                transaction.checkpoint(*book.checkpoint())
            before = transaction.clock()
            moment = advance(before, self._clock())
            transaction.take(taken)
            verdicts = front(opened, self._roster)
            look_up(book, speakers(opened, verdicts), transaction)
            batch = listen(mail, opened, verdicts, book, moment)
            # Replayed pieces left the quarantine: all that are still refused must go back.
            drafted = draft(batch, book, self._policy, moment, most_pieces=len(opened) if taken else MOST_PIECES)
            found = transaction.find(drafted.questions)
            self._book = None  # judging changes its states: without a commit they differ from the store's
            planned = plan(drafted, found)
            written = transaction.write(planned.effects)
            generation = transaction.generation
        self._note_time(before, moment)
        self._book = book
        if overdue:
            book.note_checkpoint()
        book.apply(planned.change, written.left, generation)
        return BatchReport(
            messages=len(mail),
            reports=len(opened),
            counts=planned.effects.counts,
            exposed_devices=planned.exposed_devices,
            gaps=len(planned.effects.gaps),
            dropped=written.dropped,
            generation=generation,
            seconds=time.perf_counter() - started,
            heard=Heard(book.roster.ids(batch.heard), batch.lowest),
        )

    def receipts(self, heard: Heard) -> list[tuple[int, bytes]] | None:
        """Return receipts (specification, section 11) as device and payload; None before the first batch and after a failed one.

        The key is that of the newest bundle with a stored report: the device that sent it has that key.
        """
        if self._book is None:
            return None
        self.store.verify_place()  # a device deletes what a receipt names
        keyring = self._book.roster.keyring
        heard = heard.only(slots_of(keyring, heard.device) >= 0)
        states = self._states(self._book, heard.device)
        said = statement_of(seen_in(states), heard.lowest)
        bundle = keyring.find(heard.device, states["last_number"])  # -1 where nothing is stored
        keys = keyring.keys.receipt[bundle]
        receipts = write_receipts(heard.device, keys, said.upto, said.runs, said.run_ends)
        rows = zip(heard.device.tolist(), receipts, bundle.tolist(), strict=True)
        return [(device, receipt) for device, receipt, place in rows if place >= 0]

    def _states(self, book: Book, devices: Ints) -> States:
        """Return the states of devices (ascending) from the cache, or from the store if one of them was evicted."""
        slots = slots_of(book.roster.keyring, devices)
        if book.seats.absent(slots).any():
            return states_of(devices, self.store.devices(devices))
        return book.gather(slots)

    def prune(self, age_seconds: float | None) -> int | None:
        """Delete older reports by whole days, delete number ranges that are no longer used, and return free pages to the file system.

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
        dropped = self._prune_log(moment.seen / 1000, age_seconds) if age_seconds else 0
        with self.store.begin() as transaction:
            transaction.forget_filed(filing.kept_from(moment.seen, self._policy.bucket_seconds))
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

    def _give_back(self) -> bool:
        with self.store.begin() as transaction:
            return transaction.give_back()

    def _prune_some(self, before: float, now: float) -> Aged:
        """Delete some old events, after computing the test states at the new beginning of the log."""
        with self.store.begin() as transaction:
            aged = transaction.aged(before, now)
            if aged.arrival:
                profiles = self._roster.keyring.profiles if self._roster else ()
                gone = np.unique(np.concatenate([aged.log.device, aged.gaps.device]))
                begins = bases(transaction.bases(gone), aged, transaction.devices(gone), profiles, self._policy.alpha)
                transaction.prune(aged, begins)
        return aged

    def _note_time(self, before: Moment, moment: Moment) -> None:
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

    def _current_book(self, roster: Roster, transaction: Transaction) -> Book:
        """Return the book, read again if it is missing or another process has written."""
        generation = transaction.generation
        if self._book is not None and self._book.generation == generation:
            return self._book
        arrival, checkpointed = transaction.arrival, transaction.checkpointed
        tail = transaction.events(Book.tail_begins(arrival, checkpointed))
        unstored = Book.unstored(tail, checkpointed)
        with reading_stored():
            return Book.open(
                roster,
                alpha=self._policy.alpha,
                room=self._room,
                generation=generation,
                devices=transaction.devices(unstored),
                conduct=transaction.conduct(unstored),
                checkpointed=checkpointed,
                arrival=arrival,
                tail=tail,
                totals=transaction.totals(),
            )


def look_up(book: Book, slots: Ints, transaction: Transaction) -> None:
    """Load the stored states of devices that the book does not have in memory."""
    strangers = book.strangers(slots)
    if len(strangers):
        ids = book.roster.ids(strangers)
        with reading_stored():
            book.admit(strangers, transaction.devices(ids), transaction.conduct(ids))


@contextmanager
def reading_stored() -> Iterator[None]:
    """Raise `StoreCorrupt` if stored events cannot be played on stored states."""
    try:
        yield
    except Unplayable as error:
        raise StoreCorrupt(f"the store is damaged: {error}; restore a copy") from error
