# SPDX-License-Identifier: MIT
"""The messages of verified coins: commitments, audit answers and openings (SPEC section 13.3).

They are not stored. They follow from the batches on flash, and are made again when they are to be sent again:

- a commitment, until a receipt has its audit;
- an audit answer, until a receipt approves its batch;
- the openings of a challenge, until a receipt counts it as opened.

A device that stays awake sends them again after a start and after the pauses of `Resend`. After deep sleep it sends
them again with probability 1/4 per wake.
"""

from peel_device.timing import Resend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from peel_device.coins import Coins
    from peel_device.config import Config
    from peel_device.interfaces import Clock, Core

PAYLOAD_MAX = 1400  # bytes, about what one TCP segment carries
COMMITMENT, AUDIT_ANSWER, OPENING = 1, 2, 3
_TAG = 8


class Messages:
    """Makes the messages that the gateway still needs, one payload at a time."""

    def __init__(
        self, core: "Core", config: "Config", coins: "Coins", clock: "Clock", random: "Callable[[int], bytes]"
    ) -> None:
        self._core = core
        self._key = config.coin_key.reveal()
        self._profile = config.profile.id
        self._device = config.device
        self._coins = coins
        self._resend_batch = Resend(clock, random)
        self._resend_openings = Resend(clock, random)
        self._told = self._telling = 0  # what was sent of the batch that is not approved
        self._answered = self._answering = (0, 0)  # the count of a challenge, and the highest number that was opened

    def consider_sent(self) -> None:
        """Take everything that follows from the flash as sent."""
        self._told = self._batch_state()
        if self._coins.pending is not None:
            self._answered = self._coins.pending.count, self._coins.pending.runs[-1][1]

    def send_again_if_due(self) -> None:
        """Mark messages as still to be sent, if no receipt has confirmed them for some time."""
        pending = self._coins.pending
        if self._resend_batch.due(self._batch_state() or None):
            self._told = 0
        if self._resend_openings.due(None if pending is None else pending.count):
            self._answered = (0, 0)

    @property
    def waiting(self) -> bool:
        """Whether there is something to send."""
        state = self._batch_state()
        if state and state != self._told:
            return True
        pending = self._coins.pending
        return pending is not None and self._opened_upto() < pending.runs[-1][1]

    def next(self) -> bytes:
        """Return the next payload, empty if there is nothing to send."""
        self._telling, self._answering = self._told, self._answered
        state = self._batch_state()
        if state and state != self._told:
            self._telling = state
            frame = self._batch_message()
            if frame:
                return frame
        payload = self._openings()
        if not payload:
            self.sent()  # all that was left is void
        return payload

    def sent(self) -> None:
        """Record that the broker has acknowledged the last payload."""
        self._told, self._answered = self._telling, self._answering

    def _batch_state(self) -> int:
        """Return a number for the batch that is not approved and for what is to be sent of it, or 0."""
        batch = self._coins.unapproved
        return 0 if batch is None else batch.first * 4 + (AUDIT_ANSWER if batch.audit else COMMITMENT)

    def _batch_message(self) -> bytes:
        """Return a commitment or an audit answer; empty if the batch turns out to be void."""
        batch = self._coins.unapproved
        assert batch is not None
        body = self._coins.revealed(batch) if batch.audit else self._coins.roots(batch)
        return self._seal(AUDIT_ANSWER if batch.audit else COMMITMENT, batch.first, body) if body else b""

    def _opened_upto(self) -> int:
        pending = self._coins.pending
        return self._answered[1] if pending is not None and pending.count == self._answered[0] else 0

    def _openings(self) -> bytes:
        """Return as many of the next openings as fit into a payload."""
        pending = self._coins.pending
        if pending is None:
            return b""
        after = self._opened_upto()
        frames: list[bytes] = []
        size = 0
        for first, last in pending.runs:
            for number in range(max(first, after + 1), last + 1):
                body = self._coins.opening(number)
                if body is not None:
                    frames.append(self._seal(OPENING, number, body))
                    size += len(frames[-1])
                self._answering = pending.count, number
                if frames and size + len(frames[-1]) > PAYLOAD_MAX:
                    return b"".join(frames)
        self._answering = pending.count, pending.runs[-1][1]
        return b"".join(frames)

    def _seal(self, kind: int, number: int, body: bytes) -> bytes:
        header = bytes([0x10, kind]) + self._profile.to_bytes(4, "little") + self._device.to_bytes(4, "little")
        header += number.to_bytes(6, "little")
        return header + self._core.seal(self._key, header, b"", body)[: len(body) + _TAG]
