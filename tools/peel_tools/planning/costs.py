# SPDX-License-Identifier: MIT
"""What a report costs on the air, on flash and in the store, and how long a battery lasts."""

from __future__ import annotations

from dataclasses import dataclass

from peel_core import hash_family
from peel_core.frame import frame_bytes
from peel_core.primitives import EPSILON_ONE
from peel_core.profile import DEFAULT_WIDTH
from peel_gateway.planning.task import Subject, Task
from peel_gateway.storage.records import RECORD

__all__ = ["Battery", "air_bytes", "flash_bytes", "report_bytes", "stored_bytes"]

_FLEET_NAME_BYTES = 10
_TOPIC_BYTES = len("peel/v1//00/00000000/report") + _FLEET_NAME_BYTES
_PUBLISH_BYTES = 2 + 2 + 2
"""Fixed header, length of the topic, packet identifier."""
_PUBACK_BYTES = 4
_RECEIPT_BYTES = 4 + len("peel/v1//00/00000000/receipt") + _FLEET_NAME_BYTES + 19
"""A PUBLISH at QoS 0 around a receipt without gaps."""
_CHECKSUM_BYTES = 4
_HOURS_PER_DAY = 24


def report_bytes(subject: Subject, epsilon: float) -> int:
    """Size of a frame in a profile of the usual width."""
    symbols = hash_family.symbols(int(epsilon * EPSILON_ONE)) if subject.mechanism == "hashing" else subject.size
    return frame_bytes(max(DEFAULT_WIDTH, symbols))


def air_bytes(task: Task) -> int:
    """MQTT's bytes for a report of its own, acknowledgement and receipt included; TCP, IP and TLS apart."""
    return report_bytes(task.subject, task.epsilon) + _TOPIC_BYTES + _PUBLISH_BYTES + _PUBACK_BYTES + _RECEIPT_BYTES


def flash_bytes(task: Task) -> int:
    """What a device writes into its outbox for a report; the ledger and LittleFS itself add a few bytes."""
    return report_bytes(task.subject, task.epsilon) + _CHECKSUM_BYTES


def stored_bytes() -> int:
    """What the gateway's log takes for a report at first; sealed with others it becomes about a third."""
    return RECORD.itemsize


@dataclass(frozen=True)
class Battery:
    """A device that sleeps between its reports."""

    capacity_mah: float
    awake_ma: float
    awake_s: float
    """Per report: joining the network, sending, waiting for the answer."""
    asleep_ma: float

    def days(self, interval_s: float) -> float:
        """How long it lasts, its own discharge apart."""
        duty = min(1.0, self.awake_s / interval_s)
        return self.capacity_mah / (self.awake_ma * duty + self.asleep_ma * (1 - duty)) / _HOURS_PER_DAY
