# SPDX-License-Identifier: MIT
"""Run a simulated fleet against a broker at a rate, and resend messages until a gateway confirms them."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from peel_core import PeelError
from peel_core.receipts import Receipt, read_receipt
from peel_tools.simulation.coins import UNSTORED, FleetCoins
from peel_tools.simulation.fleet import SimulatedFleet
from peel_tools.simulation.publisher import Publisher
from peel_tools.simulation.truth import Outgoing, Truth

__all__ = ["Confirmation", "Progress", "Simulation"]

_LONGEST_PAUSE = 3600.0
_TOPIC = re.compile(r"/[0-9a-f]{2}/([0-9a-f]{8})/receipt$")


@dataclass
class _Waiting:
    """A message that the broker has acknowledged and no gateway has confirmed."""

    message: Outgoing
    again_at: float
    pause: float


class Confirmation:
    """The messages that wait for receipts, as on real devices. Messages without a valid report wait for nothing.

    Parameters
    ----------
    keys : mapping
        Each device's receipt key.
    pause : float
        Seconds until a message is resent. They double each time, up to an hour, with jitter.
    coins : FleetCoins, optional
        Reads the receipts of devices with verified coins.
    """

    def __init__(self, keys: Mapping[int, bytes], *, pause: float, coins: FleetCoins | None = None) -> None:
        self._keys = keys
        self._coins = coins
        self._pause = pause
        self._sent: dict[int, Outgoing] = {}
        self._waiting: dict[int, dict[int, _Waiting]] = {}
        self._last: dict[int, Receipt] = {}
        self.refused = 0
        """Invalid messages on receipt topics."""
        self.heard = 0
        """Valid receipts."""

    @property
    def waiting(self) -> int:
        """The number of messages that the broker has acknowledged and no gateway has confirmed."""
        return sum(len(messages) for messages in self._waiting.values())

    def sent(self, messages: Sequence[Outgoing]) -> None:
        """Note messages that were sent to the broker."""
        self._sent |= {message.id: message for message in messages if message.numbers}

    def acknowledged(self, ids: Sequence[int], now: float) -> list[int]:
        """Note messages that the broker has acknowledged. Return those that need not wait for a receipt."""
        done = []
        for id_ in ids:
            message = self._sent.pop(id_, None)
            if message is None or self._settles(message):
                done.append(id_)
                continue
            kept = self._waiting.setdefault(message.device, {})
            pause = min(_LONGEST_PAUSE, 2 * kept[id_].pause) if id_ in kept else self._pause
            kept[id_] = _Waiting(message, now + pause * random.uniform(0.5, 1), pause)
        return done

    def received(self, topic: str, payload: bytes) -> list[int]:
        """Process a message on a receipt topic. Return the messages that it settles."""
        named = _TOPIC.search(topic)
        device = int(named[1], 16) if named else 0
        if device not in self._keys:
            return []  # a device of the fleet that is not simulated here, or a topic that was not subscribed to
        try:
            if self._coins is not None and device in self._coins:
                receipt = self._coins.receive(device, payload)
            else:
                receipt = read_receipt(self._keys[device], device, payload)
        except PeelError:
            self.refused += 1
            return []
        self.heard += 1
        self._last[device] = receipt
        kept = self._waiting.get(device, {})
        settled = [id_ for id_, each in kept.items() if self._settles(each.message)]
        for id_ in settled:
            del kept[id_]
        return settled

    def _settles(self, message: Outgoing) -> bool:
        """Return whether the device's last receipt settles a message. It may have come before the broker's acknowledgement."""
        receipt = self._last.get(message.device)
        return receipt is not None and all(map(receipt.settles, message.numbers))

    def forget_pauses(self) -> None:
        """Make all waiting messages overdue, as on devices that have just booted."""
        for kept in self._waiting.values():
            for id_, each in kept.items():
                kept[id_] = _Waiting(each.message, 0.0, self._pause)

    def overdue(self, now: float) -> list[Outgoing]:
        """Return the messages that are due to be resent, oldest first."""
        late = [each.message for kept in self._waiting.values() for each in kept.values() if each.again_at <= now]
        return sorted((message for message in late if message.id not in self._sent), key=lambda message: message.id)


_STEP_SECONDS = 0.02
_MOST_PER_STEP = 2000
_LOOK_SECONDS = 0.5


@dataclass
class Progress:
    """The progress of a run."""

    published: int = 0
    """Reports handed to MQTT, including attackers'."""
    acknowledged: int = 0
    """Messages that the broker has acknowledged."""
    confirmed: int = 0
    """Messages that a gateway has confirmed."""
    resent: int = 0
    """Resent messages, of this run or an earlier one, which were not confirmed (or acknowledged, if that is enough)."""
    held_back: bool = False
    """Whether the profile's quota, or a lack of approved numbers, keeps the fleet below the requested rate."""
    seconds: float = 0.0


class Simulation:
    """Runs a fleet against a broker until enough is published, time is up, or `stop` is called.

    With a `confirmation` devices keep their reports until a gateway has confirmed them, otherwise until the broker has.
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
        """End the run after the current step. Safe in any thread and in a signal handler."""
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

    def wait_for_numbers(self, seconds: float) -> None:
        """Wait until honest devices with verified coins have approved numbers, or for this long."""
        deadline = time.monotonic() + seconds
        while not (self._fleet.coins.ready or self._stopping.is_set()) and time.monotonic() < deadline:
            self._pump(_STEP_SECONDS)

    def drain(self, seconds: float) -> bool:
        """Wait until everything is acknowledged. Return False on timeout."""
        deadline = time.monotonic() + seconds
        while self._publisher.outstanding and time.monotonic() < deadline:
            self._pump(_STEP_SECONDS)
        return not self._publisher.outstanding

    @property
    def unconfirmed(self) -> int:
        """The number of messages that the broker has acknowledged and no gateway has confirmed."""
        return self._confirmation.waiting if self._confirmation else 0

    @property
    def receipts(self) -> int:
        """The number of receipts received."""
        return self._confirmation.heard if self._confirmation else 0

    def power_cycle(self) -> None:
        """Reboot all devices: they resend their unconfirmed messages at once."""
        if self._confirmation is not None:
            self._confirmation.forget_pauses()
        self._fleet.coins.wake()

    @property
    def unopened(self) -> int:
        """The number of reports that the gateway holds until their verified coins are opened."""
        return self._fleet.coins.unopened

    def confirm(self, seconds: float) -> bool:
        """Wait until a gateway has confirmed all messages and verified coins. Return False on timeout."""
        deadline = time.monotonic() + seconds
        while (self.unconfirmed or self.unopened) and time.monotonic() < deadline:
            self._pump(_STEP_SECONDS)
        return not (self.unconfirmed or self.unopened)

    def _resend(self, messages: Sequence[Outgoing]) -> None:
        self.progress.resent += len(messages)
        self._publish(messages)

    def _publish(self, messages: Sequence[Outgoing]) -> None:
        if self._confirmation is not None:
            self._confirmation.sent(messages)
        self._publisher.publish(messages)

    def _step(self, due: int) -> None:
        """Make and send the reports that are due, in rounds with at most one message per device."""
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
        ids = [id_ for id_ in self._publisher.pump(seconds) if id_ != UNSTORED]
        self._truth.acknowledge(ids)
        self.progress.acknowledged += len(ids)
        if self._confirmation is None:
            self._truth.finish(ids, confirmed=False)
        else:
            self._settle(self._confirmation, ids)

    def _settle(self, confirmation: Confirmation, acknowledged: Sequence[int]) -> None:
        """Forget confirmed messages and resend overdue ones."""
        now = time.monotonic()
        done = confirmation.acknowledged(acknowledged, now)
        settled = [id_ for receipt in self._publisher.take_receipts() for id_ in confirmation.received(*receipt)]
        self._truth.finish(done, confirmed=False)
        self._truth.finish(settled, confirmed=True)
        self.progress.confirmed += len(settled)
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self._resend(confirmation.overdue(now))
        if self._publisher.has_room():
            self._publisher.publish(self._fleet.coins.messages(now))
