# SPDX-License-Identifier: MIT
"""From the inbox to the store: micro-batches, one transaction each, acknowledgement after the commit.

What cannot be stored now is kept, unacknowledged, and tried again: the broker holds the rest back. A database that cannot
be used ends the service, everything still unacknowledged: the broker delivers it again after the repair. A single message
that cannot be stored while others can is set aside in a file, and acknowledged: it must not stop those behind it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from peel_gateway.engine.engine import Engine
from peel_gateway.logs import Log
from peel_gateway.metrics import Metrics
from peel_gateway.model.mail import Mail
from peel_gateway.model.message import Message
from peel_gateway.mqtt.aside import SideFolder
from peel_gateway.mqtt.inbox import Delivery, Inbox
from peel_gateway.mqtt.receipts import Receipts
from peel_gateway.mqtt.receiver import Receiver
from peel_gateway.outlets.alarm import Alarm
from peel_gateway.settings import Settings
from peel_gateway.storage.store import (
    StoreError,
    StoreFull,
    StoreLocked,
    StoreLost,
    StoreUnusable,
)

__all__ = ["Ingest"]

_ENDING = (StoreUnusable, StoreLost)
"""Errors that no waiting mends."""
_FIRST_BACKOFF_SECONDS = 0.05
_LONGEST_BACKOFF_SECONDS = 2.0
_IDLE_SECONDS = 0.5

_log = Log("ingest")

Chore = Callable[[], None]


class Ingest:
    """A thread that takes batches, has the engine store them and has the receiver acknowledge them.

    All use of the engine is on this thread; `defer` brings other work to it, between two batches.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        inbox: Inbox,
        receiver: Receiver,
        metrics: Metrics,
        *,
        alarm: Alarm,
        receipts: Receipts,
        on_end: Chore,
    ) -> None:
        self._settings = settings
        self._alarm = alarm
        self._receipts = receipts
        self._unstorable = SideFolder(settings.store_path.with_name(settings.store_path.name + ".unstorable"))
        self._engine = engine
        self._inbox = inbox
        self._receiver = receiver
        self._metrics = metrics
        self._on_end = on_end
        self._chores: list[Chore] = []
        self._stopping = threading.Event()
        self._abandoning = False
        self._thread = threading.Thread(target=self._run, name="ingest", daemon=True)
        self._failing_since: float | None = None
        self._cause = ""
        self.failure: BaseException | None = None
        self.abandoned = 0
        self.generation = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Store what the inbox still holds, then end; False when that took longer."""
        self._stopping.set()
        self._inbox.close()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def abandon(self, seconds: float) -> bool:
        """End without storing what the inbox still holds; False when that took longer."""
        self._abandoning = True
        return self.stop(seconds)

    def defer(self, chore: Chore) -> None:
        """Have something done on this thread, soon and between two batches."""
        self._chores.append(chore)
        self._inbox.announce()

    def trouble(self) -> tuple[float, str] | None:
        """How long the store has been failing, and why; None while it works."""
        since, cause = self._failing_since, self._cause
        return None if since is None else (time.monotonic() - since, cause)

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
                self._receipts.flush()
                if not batch and self._stopping.is_set():
                    return
        except StoreLost as error:
            self.failure = error
            _log.warning("the share is another worker's", cause=error)
        except StoreUnusable as error:
            self.failure = error
            _log.error("the database cannot be used", cause=error)
        except BaseException as error:
            self.failure = error
            _log.exception("ingest failed")
        finally:
            self._on_end()

    def _take(self) -> list[Delivery]:
        settings = self._settings
        return self._inbox.take(
            settings.batch_messages, settings.batch_bytes, linger=settings.batch_seconds, patience=_IDLE_SECONDS
        )

    def _store(self, batch: Sequence[Delivery]) -> bool:
        """Store and acknowledge a batch; False when the service stops before the store recovers."""
        backoff = _FIRST_BACKOFF_SECONDS
        mail = Mail.join([delivery.mail for delivery in batch])
        while True:
            started = time.monotonic()
            try:
                self._commit(mail)
            except _ENDING:
                raise
            except StoreError as error:
                self._note_failure(error)
            else:
                break
            if self._stopping.wait(backoff):
                return False
            backoff = min(2 * backoff, _LONGEST_BACKOFF_SECONDS)
        stored = time.monotonic()
        self._note_success()
        self._acknowledge(batch)
        self._metrics.batch_stored(
            messages=len(mail), process_seconds=stored - started, ack_seconds=time.monotonic() - batch[0].arrived
        )
        self.generation += 1
        return True

    def _commit(self, mail: Mail) -> None:
        """Have messages stored; one that fails while an empty batch does not is set aside.

        Halves are tried on their own, so that what is good about a batch is stored, and once: a half that was stored and comes
        again is redelivered, which is harmless.
        """
        try:
            report = self._engine.process(mail)
        except (*_ENDING, StoreFull, StoreLocked):
            raise
        except Exception as error:
            self._engine.process([])  # fails if it is the store, and then all of it is tried again later
            if len(mail) == 1:
                self._set_aside(mail.message(0), error)
                return
            middle = len(mail) // 2
            for half in (mail.part(0, middle), mail.part(middle, len(mail))):
                self._commit(half)
            return
        self._alarm.exposed(report.exposed_devices)
        self._receipts.heard(report.heard)

    def _set_aside(self, message: Message, error: Exception) -> None:
        path = self._unstorable.put(message)
        self._metrics.set_aside()
        _log.error("a message cannot be stored; it is set aside", file=path, bytes=message.size, cause=repr(error))

    def _acknowledge(self, batch: Sequence[Delivery]) -> None:
        self._inbox.release(batch)
        self._receiver.acknowledge(batch)

    def _note_failure(self, error: StoreError) -> None:
        self._metrics.store_failed(error)
        self._cause = f"{type(error).__name__}: {error}"
        if self._failing_since is None:
            self._failing_since = time.monotonic()
            _log.error("store failing; nothing is acknowledged until it recovers", cause=error)

    def _note_success(self) -> None:
        if self._failing_since is not None:
            _log.info("store recovered", seconds=time.monotonic() - self._failing_since)
            self._failing_since = None
