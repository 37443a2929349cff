# SPDX-License-Identifier: MIT
"""What simulated devices keep until a gateway confirms it, as real ones do: same receipts, same patience."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from peel_core import PeelError
from peel_core.receipts import Receipt, read_receipt
from peel_tools.simulation.truth import Outgoing

__all__ = ["Confirmation"]

_LONGEST_PAUSE = 3600.0
_TOPIC = re.compile(r"/[0-9a-f]{2}/([0-9a-f]{8})/receipt$")


@dataclass
class _Waiting:
    """A message that the broker has taken."""

    message: Outgoing
    again_at: float
    pause: float


class Confirmation:
    """The messages that wait for receipts. Those with nothing in them that a gateway may store wait for none.

    Parameters
    ----------
    keys : mapping
        Each device's receipt key.
    pause : float
        Seconds after which a message is sent again; doubles each time, up to an hour, with jitter.
    """

    def __init__(self, keys: Mapping[int, bytes], *, pause: float) -> None:
        self._keys = keys
        self._pause = pause
        self._sent: dict[int, Outgoing] = {}
        self._waiting: dict[int, dict[int, _Waiting]] = {}
        self._last: dict[int, Receipt] = {}
        self.refused = 0
        """Messages on a receipt's topic that were none."""
        self.heard = 0
        """Receipts."""

    @property
    def waiting(self) -> int:
        """How many messages the broker has taken and no gateway has confirmed."""
        return sum(len(messages) for messages in self._waiting.values())

    def sent(self, messages: Sequence[Outgoing]) -> None:
        """Messages are on their way to the broker."""
        self._sent |= {message.id: message for message in messages if message.numbers}

    def acknowledged(self, ids: Sequence[int], now: float) -> list[int]:
        """The broker has taken these; returns those that wait for nobody else, or no longer."""
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
        """What has arrived on a receipt's topic; returns the messages that it settles."""
        named = _TOPIC.search(topic)
        device = int(named[1], 16) if named else 0
        if device not in self._keys:
            return []  # of the fleet, but not one that is simulated here; some brokers also deliver what nobody asked for
        try:
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
        """Whether the device's last receipt does; it may have been faster than the broker's acknowledgement."""
        receipt = self._last.get(message.device)
        return receipt is not None and all(map(receipt.settles, message.numbers))

    def forget_pauses(self) -> None:
        """What waits is overdue, as for devices that have just booted."""
        for kept in self._waiting.values():
            for id_, each in kept.items():
                kept[id_] = _Waiting(each.message, 0.0, self._pause)

    def overdue(self, now: float) -> list[Outgoing]:
        """Messages that have waited long enough to be sent again, oldest first."""
        late = [each.message for kept in self._waiting.values() for each in kept.values() if each.again_at <= now]
        return sorted((message for message in late if message.id not in self._sent), key=lambda message: message.id)
