# SPDX-License-Identifier: MIT
"""A run: the fleet reports at a rate, the publisher sends, the truth is kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from peel_tools.simulation.fleet import SimulatedFleet
from peel_tools.simulation.publisher import Publisher
from peel_tools.simulation.truth import Truth

__all__ = ["Progress", "Simulation"]

_STEP_SECONDS = 0.02
_MOST_PER_STEP = 2000


@dataclass
class Progress:
    """How far a run is."""

    published: int = 0
    """Reports handed to MQTT, those of attackers included."""
    acknowledged: int = 0
    """Messages that the broker has acknowledged."""
    resent: int = 0
    """Messages of an earlier run, sent again because nobody had acknowledged them."""
    held_back: bool = False
    """Whether the profile's quota keeps the fleet below the rate that was asked for."""
    seconds: float = 0.0


class Simulation:
    """Runs a fleet against a broker until enough is published, time is up, or `stop` is called."""

    def __init__(
        self,
        fleet: SimulatedFleet,
        publisher: Publisher,
        truth: Truth,
        *,
        rate: float,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._fleet = fleet
        self._publisher = publisher
        self._truth = truth
        self._rate = rate
        self._on_progress = on_progress
        self._stopping = threading.Event()
        self.progress = Progress()

    def stop(self) -> None:
        """End the run after the step at hand; safe from any thread and from a signal handler."""
        self._stopping.set()

    def run(self, *, reports: int | None = None, seconds: float | None = None) -> Progress:
        """Publish about `reports` more reports, or for `seconds`, or until `stop`."""
        self._resend()
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

    def _resend(self) -> None:
        waiting = self._truth.waiting()
        self.progress.resent = len(waiting)
        self._publisher.publish(waiting)

    def _step(self, due: int) -> None:
        """Make and send what is due, in rounds in which each device speaks once at most."""
        while due > 0 and self._publisher.has_room() and not self._stopping.is_set():
            messages = self._fleet.reports(due, time.monotonic())
            self.progress.held_back = not messages
            if not messages:
                return
            self._publisher.publish(messages)
            made = sum(message.pieces for message in messages)
            self.progress.published += made
            due -= made
            self._pump(0.0)

    def _pump(self, seconds: float) -> None:
        ids = self._publisher.pump(seconds)
        self._truth.acknowledge(ids)
        self.progress.acknowledged += len(ids)
