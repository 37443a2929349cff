# SPDX-License-Identifier: MIT
"""Store the messages of the inbox in batches, one transaction each, and acknowledge them after the commit.

A message is acknowledged once it is in the database or among the dead letters. Errors have three kinds:

- The store fails (full disk, lock, I/O error, lost connection), or memory runs out. No message is at fault: the batch is kept,
  unacknowledged, and tried again.
- A message fails: the code cannot process it, or the database rejects its data. The batch is split until the message is alone. After
  several failures alone, each followed by a commit without it, it becomes a dead letter, so that it does not block the others.
- The database is unusable, or another worker owns the partition. The thread ends. The broker delivers the messages again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from peel_gateway.engine.engine import Engine
from peel_gateway.logs import Log, Outage
from peel_gateway.metrics import Metrics
from peel_gateway.model.messages import MessageBatch
from peel_gateway.mqtt.client import MqttClient
from peel_gateway.mqtt.connection import InFlight
from peel_gateway.mqtt.inbox import Inbox
from peel_gateway.mqtt.receipts import Receipts
from peel_gateway.notifiers.alarm import Alarm
from peel_gateway.settings import Settings
from peel_gateway.storage.dead_letters import DeadLetters
from peel_gateway.storage.store import StoreError, StoreLost, StoreRejected, StoreUnusable

__all__ = ["Ingest"]

_ENDING = (StoreUnusable, StoreLost)
"""Errors that a retry cannot fix."""
_PASSING = (StoreError, MemoryError, OSError)
"""Errors that no message causes, except for `StoreRejected`. They are retried."""
_ATTEMPTS_ALONE = 3
"""Failures after which a single message becomes a dead letter."""
_FIRST_BACKOFF_SECONDS = 0.05
_LONGEST_BACKOFF_SECONDS = 2.0
_IDLE_SECONDS = 0.5

_log = Log("ingest")

Chore = Callable[[], None]
Result = TypeVar("Result")


class _StopAskedError(Exception):
    """The service stops while the store still fails."""


class Ingest:
    """A thread that takes batches, has the engine store them and has the client acknowledge them.

    All use of the engine is on this thread; `defer` brings other work to it, between two batches.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        inbox: Inbox,
        client: MqttClient,
        metrics: Metrics,
        *,
        alarm: Alarm,
        receipts: Receipts,
        on_end: Chore,
    ) -> None:
        self._settings = settings
        self._alarm = alarm
        self._receipts = receipts
        self._dead_letters = DeadLetters(settings.dead_letters_path)
        self._engine = engine
        self._inbox = inbox
        self._client = client
        self._metrics = metrics
        self._on_end = on_end
        self._chores: list[Chore] = []
        self._stopping = threading.Event()
        self._abandoning = False
        self._thread = threading.Thread(target=self._run, name="ingest", daemon=True)
        self._store_outage = Outage(_log, "store failing; nothing is acknowledged until it recovers", "store recovered")
        self._receipt_outage = Outage(
            _log, "receipts cannot be written; they are kept for later", "receipts are written again"
        )
        self.failure: BaseException | None = None
        self.abandoned = 0
        self.generation = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Store the rest of the inbox, then end; False if that takes more than `seconds`."""
        self._stopping.set()
        self._inbox.close()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def abandon(self, seconds: float) -> bool:
        """End without storing the rest of the inbox; False if that takes more than `seconds`."""
        self._abandoning = True
        return self.stop(seconds)

    def defer(self, chore: Chore) -> None:
        """Run a chore on this thread soon, between two batches."""
        self._chores.append(chore)
        self._inbox.wake()

    def problem(self) -> tuple[float, str] | None:
        """Return how long the store has been failing, and why; None while it works."""
        found = [problem.current() for problem in (self._store_outage, self._receipt_outage)]
        return max((problem for problem in found if problem is not None), default=None)

    def _run(self) -> None:
        try:
            while True:
                batch = self._take()
                if self._abandoning:
                    return
                while self._chores:
                    self._chores.pop(0)()
                if batch and not self._store(batch):
                    self.abandoned = self._inbox.pending
                    return
                self._challenge()
                self._send_receipts()
                if not batch and self._stopping.is_set():
                    return
        except StoreLost as error:
            self.failure = error
            _log.warning("another worker has taken this partition", cause=error)
        except StoreUnusable as error:
            self.failure = error
            _log.error("the database cannot be used", cause=error)
        except BaseException as error:
            self.failure = error
            _log.exception("ingest failed")
        finally:
            self._on_end()

    def _take(self) -> list[InFlight]:
        settings = self._settings
        return self._inbox.take(
            settings.batch_messages, settings.batch_bytes, linger=settings.batch_seconds, patience=_IDLE_SECONDS
        )

    def _store(self, batch: Sequence[InFlight]) -> bool:
        """Store and acknowledge a batch; False when the service stops before the store recovers."""
        messages = MessageBatch.join([part.messages for part in batch])
        try:
            seconds = self._commit(messages)
        except _StopAskedError:
            return False
        self._acknowledge(batch)
        self._metrics.batch_stored(
            messages=len(messages), process_seconds=seconds, ack_seconds=time.monotonic() - batch[0].arrived
        )
        self.generation += 1
        return True

    def _commit(self, messages: MessageBatch) -> float:
        """Store messages, or make those at fault dead letters; return the seconds that the commits took."""
        for _ in range(_ATTEMPTS_ALONE if len(messages) == 1 else 1):
            outcome = self._patiently(lambda: self._attempt(messages))
            if not isinstance(outcome, Exception):
                return outcome
            self._patiently(
                lambda: self._engine.process([])
            )  # the message is at fault only if the store works without it
        if len(messages) > 1:
            middle = len(messages) // 2
            return self._commit(messages.part(0, middle)) + self._commit(messages.part(middle, len(messages)))
        message, cause = messages.message(0), repr(outcome)
        path = self._patiently(lambda: self._dead_letters.put(message))
        _log.error("a message cannot be processed; it is now a dead letter", file=path, bytes=message.size, cause=cause)
        return 0.0

    def _attempt(self, messages: MessageBatch) -> float | Exception:
        """Commit messages; return the seconds that took, or the error that the messages caused."""
        try:
            report = self._engine.process(messages)
        except StoreRejected as error:
            return error
        except _PASSING:
            raise
        except Exception as error:
            return error
        self._alarm.on_exposed(report.exposed_devices)
        self._receipts.add(report.senders)
        return report.seconds

    def _patiently(self, action: Callable[[], Result]) -> Result:
        """Run an action; repeat it with growing pauses while the store fails.

        Raises
        ------
        StoreUnusable, StoreLost
            No retry can succeed.
        _StopAskedError
            The service stops, and the store still fails.
        """
        backoff = _FIRST_BACKOFF_SECONDS
        while True:
            try:
                result = action()
            except _ENDING:
                raise
            except _PASSING as error:
                self._metrics.store_failed(error)
                self._store_outage.note(error)
            else:
                self._store_outage.end()
                return result
            if self._stopping.wait(backoff):
                raise _StopAskedError
            backoff = min(2 * backoff, _LONGEST_BACKOFF_SECONDS)

    def _challenge(self) -> None:
        """Challenge the verified coins of ended time buckets, and remind devices of theirs; while the store fails they wait."""
        try:
            report = self._engine.challenge()
            self._receipts.add(self._engine.reminders())
        except _ENDING:
            raise
        except _PASSING as error:
            self._metrics.store_failed(error)
            self._store_outage.note(error)
            return
        if report is not None:
            self._alarm.on_exposed(report.exposed_devices)
            self._receipts.add(report.senders)
            self.generation += 1

    def _send_receipts(self) -> None:
        """Publish the receipts that are due; while the store cannot be read they stay due."""
        try:
            self._receipts.flush()
        except _ENDING:
            raise
        except _PASSING as error:
            self._metrics.store_failed(error)
            self._receipt_outage.note(error)
        else:
            self._receipt_outage.end()

    def _acknowledge(self, batch: Sequence[InFlight]) -> None:
        self._inbox.release(batch)
        self._client.acknowledge(batch)
