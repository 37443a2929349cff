# SPDX-License-Identifier: MIT
"""A run: the fleet reports at a rate, the publisher sends, the truth is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from peel_tools.simulation.confirmation import Confirmation
from peel_tools.simulation.fleet import SimulatedFleet
from peel_tools.simulation.publisher import Publisher
from peel_tools.simulation.truth import Outgoing, Truth

__all__ = ["Progress", "Simulation"]

_STEP_SECONDS = 0.02
_MOST_PER_STEP = 2000
_LOOK_SECONDS = 0.5


@dataclass
class Progress:
    """How far a run is."""

    published: int = 0
    """Reports handed to MQTT, those of attackers included."""
    acknowledged: int = 0
    """Messages that the broker has acknowledged."""
    confirmed: int = 0
    """Messages that a gateway has confirmed."""
    resent: int = 0
    """Messages sent again, of an earlier run or of this one, because they were not confirmed (or acknowledged, where that is enough)."""
    held_back: bool = False
    """Whether the profile's quota keeps the fleet below the rate that was asked for."""
    seconds: float = 0.0


class Simulation:
    """Runs a fleet against a broker until enough is published, time is up, or `stop` is called.

    With a `confirmation` devices keep their reports until a gateway has confirmed them; without, until the broker has.
    """

    def __init__(
        self,
        fleet: SimulatedFleet,
        publisher: Publisher,
        truth: Truth,
        confirmation: Confirmation | None,
        *,
        rate: float,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._fleet = fleet
        self._publisher = publisher
        self._truth = truth
        self._confirmation = confirmation
        self._looked = 0.0
        self._resumed = False
        self._rate = rate
        self._on_progress = on_progress
        self._stopping = threading.Event()
        self.progress = Progress()

    def stop(self) -> None:
        """End the run after the step at hand; safe from any thread and from a signal handler."""
        self._stopping.set()

    def run(self, *, reports: int | None = None, seconds: float | None = None) -> Progress:
        """Publish about `reports` more reports, or for `seconds`, or until `stop`."""
        if not self._resumed:
            self._resumed = True
            self._resend(self._truth.waiting())
        started, before = time.monotonic(), self.progress.published
        while not self._stopping.is_set():
            elapsed = self.progress.seconds = time.monotonic() - started
            published = self.progress.published - before
            due = min(self._rate * elapsed, reports if reports is not None else float("inf")) - published
            if reports is not None and published >= reports:
                break
            if seconds is not None and elapsed >= seconds:
                break
            if due >= 1:
                self._step(min(int(due), _MOST_PER_STEP))
            behind = due >= _MOST_PER_STEP and not self.progress.held_back and self._publisher.has_room()
            self._pump(0.0 if behind else _STEP_SECONDS)
            self._on_progress(self.progress)
        return self.progress

    def drain(self, seconds: float) -> bool:
        """Wait until everything is acknowledged; False when that took longer."""
        deadline = time.monotonic() + seconds
        while self._publisher.outstanding and time.monotonic() < deadline:
            self._pump(_STEP_SECONDS)
        return not self._publisher.outstanding

    @property
    def unconfirmed(self) -> int:
        """Messages that the broker has taken and no gateway has confirmed."""
        return self._confirmation.waiting if self._confirmation else 0

    @property
    def receipts(self) -> int:
        """Receipts heard."""
        return self._confirmation.heard if self._confirmation else 0

    def power_cycle(self) -> None:
        """Have all devices boot: they send what waits for a receipt at once, however long they meant to wait."""
        if self._confirmation is not None:
            self._confirmation.forget_pauses()

    def confirm(self, seconds: float) -> bool:
        """Wait until a gateway has confirmed what devices keep; False when that took longer."""
        deadline = time.monotonic() + seconds
        while self.unconfirmed and time.monotonic() < deadline:
            self._pump(_STEP_SECONDS)
        return not self.unconfirmed

    def _resend(self, messages: Sequence[Outgoing]) -> None:
        self.progress.resent += len(messages)
        self._publish(messages)

    def _publish(self, messages: Sequence[Outgoing]) -> None:
        if self._confirmation is not None:
            self._confirmation.sent(messages)
        self._publisher.publish(messages)

    def _step(self, due: int) -> None:
        """Make and send what is due, in rounds in which each device speaks once at most."""
        while due > 0 and self._publisher.has_room() and not self._stopping.is_set():
            messages = self._fleet.reports(due, time.monotonic())
            self.progress.held_back = not messages
            if not messages:
                return
            self._publish(messages)
            made = sum(message.pieces for message in messages)
            self.progress.published += made
            due -= made
            self._pump(0.0)

    def _pump(self, seconds: float) -> None:
        ids = self._publisher.pump(seconds)
        self._truth.acknowledge(ids)
        self.progress.acknowledged += len(ids)
        if self._confirmation is None:
            self._truth.finish(ids, confirmed=False)
        else:
            self._settle(self._confirmation, ids)

    def _settle(self, confirmation: Confirmation, acknowledged: Sequence[int]) -> None:
        """Have what is confirmed forgotten, and what waits too long sent again."""
        now = time.monotonic()
        done = confirmation.acknowledged(acknowledged, now)
        settled = [id_ for receipt in self._publisher.take_receipts() for id_ in confirmation.received(*receipt)]
        self._truth.finish(done, confirmed=False)
        self._truth.finish(settled, confirmed=True)
        self.progress.confirmed += len(settled)
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self._resend(confirmation.overdue(now))
