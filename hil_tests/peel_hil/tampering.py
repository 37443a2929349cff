# SPDX-License-Identifier: MIT
"""An attacker on the network alters reports and records the bytes sent and the verdicts that they must get.

Frame layout: SPEC section 9. The attacker knows all of it and the profile, but has no key.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from peel_core.frame import DEVICE, FLAG_UNSEALED, HEADER_BYTES, NUMBER, PROFILE, TAG_BYTES, TRITS_AT, split
from peel_hil.proxy import MeddledLine
from peel_tools.network import Publish

__all__ = ["TRICKS", "Tamperer"]

_LAST_PACKED = 242
_DELAY_SECONDS = 0.3

# Bytes of a frame in which a flipped bit is detected, and by which verdict. Byte 0 is not included: its bits differ in meaning.
_FLIPS = {
    "reserved": (range(1, 2), "malformed"),
    "profile": (range(PROFILE.start, PROFILE.end), "profile"),
    "device": (range(DEVICE.start, DEVICE.end), "device"),
    "number": (range(NUMBER.start, NUMBER.end), "seal"),
}


@dataclass
class Record:
    """The results that the gateway must find."""

    verdicts: dict[bytes, str] = field(default_factory=dict)
    """Altered frames that the broker took, with the verdict for each."""
    arrivals: list[int] = field(default_factory=list)
    """Numbers of unaltered frames that the broker took, once per delivery."""
    destroyed: set[int] = field(default_factory=set)
    """Numbers whose frame was replaced by an altered one, so that the original never arrives."""
    acknowledged: set[int] = field(default_factory=set)
    """Numbers that were acknowledged to the device, which does not send them again."""
    tricks: list[str] = field(default_factory=list)
    """The tricks played, in order."""


class Tamperer:
    """A meddler that plays every trick in turn on one message in `every`, and forwards the others."""

    def __init__(self, *, width: int, every: int, seed: int) -> None:
        self._width = width
        self._every = every
        self._chance = random.Random(seed)
        self._heard: list[bytes] = []
        self._messages = 0
        self._next_trick = _turns()
        self.record = Record()

    def __call__(self, line: MeddledLine, message: Publish) -> None:
        self._messages += 1
        frames = self._frames(message)
        self._heard += frames
        if self._messages % self._every:
            self._pass_on(line, message)
            return
        trick = next(self._next_trick)
        self.record.tricks.append(trick)
        TRICKS[trick](self, line, message)

    def _frames(self, message: Publish) -> list[bytes]:
        return split(message.payload, self._width)

    def _pass_on(self, line: MeddledLine, message: Publish) -> None:
        """Deliver a message unaltered, and acknowledge it once the broker has it, so that the record is exact even if the line breaks."""
        self._deliver(line, message)
        self._acknowledge(line, message)

    def _deliver(self, line: MeddledLine, message: Publish) -> None:
        line.deliver(message)
        self.record.arrivals += [NUMBER.of(frame) for frame in self._frames(message)]

    def _acknowledge(self, line: MeddledLine, message: Publish) -> None:
        line.acknowledge(message)
        self.record.acknowledged |= {NUMBER.of(frame) for frame in self._frames(message)}

    def _slip_in(self, line: MeddledLine, topic: bytes, frame: bytes, verdict: str) -> None:
        """Send an altered frame in a separate message."""
        line.inject(topic, frame)
        self.record.verdicts[frame] = verdict

    # ---- tricks: each takes a message that the device has just sent ----

    def delay(self, line: MeddledLine, message: Publish) -> None:
        time.sleep(_DELAY_SECONDS)
        self._pass_on(line, message)

    def duplicate(self, line: MeddledLine, message: Publish) -> None:
        line.inject(message.topic, message.payload)
        self.record.arrivals += [NUMBER.of(frame) for frame in self._frames(message)]
        self._pass_on(line, message)

    def replay(self, line: MeddledLine, message: Publish) -> None:
        """Send some old frames again, together."""
        old = self._chance.sample(self._heard, min(3, len(self._heard)))
        line.inject(message.topic, b"".join(old))
        self.record.arrivals += [NUMBER.of(frame) for frame in old]
        self._pass_on(line, message)

    def cut_before(self, line: MeddledLine, message: Publish) -> None:
        """Drop the message."""
        line.cut()

    def cut_within(self, line: MeddledLine, message: Publish) -> None:
        line.send_half(message)
        line.cut()

    def cut_after(self, line: MeddledLine, message: Publish) -> None:
        """Deliver the message but drop its acknowledgement."""
        self._deliver(line, message)
        line.cut()

    def flip_header(self, line: MeddledLine, message: Publish) -> None:
        """Flip one bit in each field of the header."""
        frame = self._some_frame(message)
        for where, verdict in _FLIPS.values():
            self._slip_in(line, message.topic, self._strange(frame, where), verdict)
        self._slip_in(line, message.topic, bytes([frame[0] ^ 0x20]) + frame[1:], "malformed")  # another version
        self._pass_on(line, message)

    def flip_body(self, line: MeddledLine, message: Publish) -> None:
        """Flip one bit in the sealed odds, in the sealed trits and in the tag."""
        frame = self._some_frame(message)
        parts = (
            range(HEADER_BYTES, TRITS_AT),
            range(TRITS_AT, len(frame) - TAG_BYTES),
            range(len(frame) - TAG_BYTES, len(frame)),
        )
        for part in parts:
            self._slip_in(line, message.topic, self._flipped(frame, self._chance.choice(part)), "seal")
        self._pass_on(line, message)

    def negate(self, line: MeddledLine, message: Publish) -> None:
        """Negate every trit, as would be possible without a seal: packed digit d becomes 2 - d."""
        frame = self._some_frame(message)
        trits = frame[TRITS_AT:-TAG_BYTES]
        negated = bytes(_LAST_PACKED - byte if byte <= _LAST_PACKED else byte ^ 1 for byte in trits)
        self._slip_in(line, message.topic, frame[:TRITS_AT] + negated + frame[-TAG_BYTES:], "seal")
        self._pass_on(line, message)

    def splice(self, line: MeddledLine, message: Publish) -> None:
        """Put an old body under a new number."""
        frame, old = self._some_frame(message), self._heard[0]
        if frame != old:
            self._slip_in(line, message.topic, frame[:HEADER_BYTES] + old[HEADER_BYTES:], "seal")
        self._pass_on(line, message)

    def strip(self, line: MeddledLine, message: Publish) -> None:
        """Mark the frame as unsealed and remove the tag."""
        frame = self._some_frame(message)
        self._slip_in(line, message.topic, bytes([frame[0] | FLAG_UNSEALED]) + frame[1:-TAG_BYTES], "unsealed")
        self._pass_on(line, message)

    def replace(self, line: MeddledLine, message: Publish) -> None:
        """Replace one frame by an altered one and acknowledge it: its report is destroyed, which must be noticed."""
        frames = self._frames(message)
        place = self._chance.randrange(len(frames))
        self.record.destroyed.add(NUMBER.of(frames[place]))
        frames[place] = self._flipped(frames[place], self._chance.randrange(HEADER_BYTES, len(frames[place])))
        line.inject(message.topic, b"".join(frames))
        self.record.verdicts[frames[place]] = "seal"
        self.record.arrivals += [NUMBER.of(frame) for at, frame in enumerate(frames) if at != place]
        self._acknowledge(line, message)

    def _some_frame(self, message: Publish) -> bytes:
        return self._chance.choice(self._frames(message))

    def _strange(self, frame: bytes, where: range) -> bytes:
        """Flip one bit of a field. Device and number stay above 0, as 0 would be malformed."""
        while True:
            altered = self._flipped(frame, self._chance.choice(where))
            if DEVICE.of(altered) and NUMBER.of(altered):
                return altered

    def _flipped(self, frame: bytes, position: int) -> bytes:
        altered = bytearray(frame)
        altered[position] ^= 1 << self._chance.randrange(8)
        return bytes(altered)


TRICKS: dict[str, Callable[[Tamperer, MeddledLine, Publish], None]] = {
    method.__name__: method
    for method in (
        Tamperer.delay,
        Tamperer.flip_body,
        Tamperer.duplicate,
        Tamperer.negate,
        Tamperer.cut_before,
        Tamperer.replay,
        Tamperer.flip_header,
        Tamperer.cut_after,
        Tamperer.splice,
        Tamperer.replace,
        Tamperer.cut_within,
        Tamperer.strip,
    )
}


def _turns() -> Iterator[str]:
    while True:
        yield from TRICKS
