# SPDX-License-Identifier: MIT
"""Many MQTT messages as a few arrays, on their way to the engine; and the devices that sent them, on the way back to receipts."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from peel_gateway.model.tables import DeviceIds

__all__ = ["LONGEST_TOPIC", "Message", "MessageBatch", "Senders"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LONGEST_TOPIC = 128
"""Bytes kept of a topic. Ours have half as many; it is a hint and proves nothing, but it is stored with each refused piece."""


@dataclass(frozen=True, slots=True)
class Message:
    """One MQTT message."""

    topic: str
    payload: bytes
    received: float
    """Unix seconds."""

    @property
    def size(self) -> int:
        """Bytes of topic and payload, as limits count them."""
        return len(self.topic) + len(self.payload)


Ends = npt.NDArray[np.uint64]

Hashes = npt.NDArray[np.uint64]

_TOPIC_WEIGHTS = np.frombuffer(secrets.token_bytes(8 * LONGEST_TOPIC), np.uint64)
"""One random weight per position in a topic. Each process draws its own, so nobody can prepare topics with equal hashes."""


@dataclass(frozen=True)
class MessageBatch:
    """N messages: their payloads one behind the other, and their topics, and when they came."""

    payloads: bytes
    payload_ends: Ends
    topics: bytes
    topic_ends: Ends
    received: Ints
    """Unix milliseconds, int64[N]."""

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Self:
        """Messages that were objects."""
        payloads = [message.payload for message in messages]
        topics = [message.topic.encode() for message in messages]
        received = np.array([max(0, round(message.received * 1000)) for message in messages], np.int64)
        return cls(b"".join(payloads), _ends(payloads), b"".join(topics), _ends(topics), received)

    @classmethod
    def at_times(cls, received: npt.NDArray[np.int64]) -> Self:
        """Empty messages with times of receipt, Unix milliseconds."""
        ends = np.zeros(len(received), np.uint64)
        return cls(b"", ends, b"", ends, received)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Several in a row."""
        return cls(
            b"".join(part.payloads for part in parts),
            _joined([part.payload_ends for part in parts]),
            b"".join(part.topics for part in parts),
            _joined([part.topic_ends for part in parts]),
            np.concatenate([part.received for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.received)

    @property
    def size(self) -> int:
        """Bytes of topics and payloads: what it counts for in limits."""
        return len(self.payloads) + len(self.topics)

    @property
    def payload_starts(self) -> Ends:
        """The offset at which each payload begins."""
        return np.concatenate([np.zeros(1, np.uint64), self.payload_ends])[: len(self)]

    def fitting(self, size: int) -> int:
        """Return how many messages, from the first on, fit into this many bytes."""
        return int(np.searchsorted(self.payload_ends + self.topic_ends, max(size, 0), side="right"))

    def payload(self, place: int) -> bytes:
        """One payload."""
        return self.payloads[_start(self.payload_ends, place) : int(self.payload_ends[place])]

    def topic(self, place: int) -> str:
        """One topic, as far as it was kept; whatever is no text is replaced."""
        return self.topics[_start(self.topic_ends, place) : int(self.topic_ends[place])].decode(errors="replace")

    def topic_hashes(self, places: npt.NDArray[np.integer]) -> Hashes:
        """Return a hash of the topic of each of these messages, uint64[N]. Equal topics have equal hashes in this process."""
        ends = self.topic_ends.astype(np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(self)]
        first = starts[places]
        sizes = np.minimum(ends[places] - first, LONGEST_TOPIC)
        stops = np.cumsum(sizes)
        position = np.arange(int(sizes.sum())) - np.repeat(stops - sizes, sizes)
        letters = np.frombuffer(self.topics, np.uint8)[np.repeat(first, sizes) + position]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum((letters + np.uint64(1)) * _TOPIC_WEIGHTS[position])])
        return np.asarray(sums[stops] - sums[stops - sizes])

    def message(self, place: int) -> Message:
        """One message as an object."""
        return Message(self.topic(place), self.payload(place), int(self.received[place]) / 1000)

    def part(self, first: int, end: int) -> MessageBatch:
        """The messages from one up to another."""
        a, b = _start(self.payload_ends, first), _start(self.payload_ends, end)
        c, d = _start(self.topic_ends, first), _start(self.topic_ends, end)
        return MessageBatch(
            self.payloads[a:b],
            self.payload_ends[first:end] - np.uint64(a),
            self.topics[c:d],
            self.topic_ends[first:end] - np.uint64(c),
            self.received[first:end],
        )


def _start(ends: Ends, place: int) -> int:
    return int(ends[place - 1]) if place > 0 else 0


def _ends(pieces: Sequence[bytes]) -> Ends:
    return np.cumsum([len(piece) for piece in pieces], dtype=np.uint64)


def _joined(parts: Sequence[Ends]) -> Ends:
    """Ends of parts, counted from the beginning of the first."""
    if not parts:
        return np.zeros(0, np.uint64)
    sizes = [int(part[-1]) if len(part) else 0 for part in parts]
    offsets = np.cumsum([0, *sizes[:-1]], dtype=np.uint64)
    return np.concatenate([part + offset for part, offset in zip(parts, offsets, strict=True)])


@dataclass(frozen=True)
class Senders:
    """Devices that sent something that opened under their keys, each once, ascending."""

    device: DeviceIds
    lowest: Ints
    """The lowest number that was received of each."""

    @classmethod
    def nothing(cls) -> Self:
        """No device."""
        return cls(DeviceIds(np.zeros(0, np.int64)), np.zeros(0, np.int64))

    @classmethod
    def of(cls, device: Ints, number: Ints) -> Self:
        """Collect reports, given by device and number, int64[N]."""
        devices, at = np.unique(device, return_inverse=True)
        lowest = np.full(len(devices), np.iinfo(np.int64).max)
        np.minimum.at(lowest, at, number)
        return cls(DeviceIds(devices), lowest)

    def joined(self, other: Senders) -> Senders:
        """This and more."""
        return Senders.of(np.concatenate([self.device, other.device]), np.concatenate([self.lowest, other.lowest]))

    def only(self, chosen: Bools) -> Senders:
        """Some of the devices, bool[D]."""
        return Senders(DeviceIds(self.device[chosen]), self.lowest[chosen])
