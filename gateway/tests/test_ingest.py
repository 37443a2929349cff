# SPDX-License-Identifier: MIT
"""From the inbox to the store: one message that cannot be stored must not stop those behind it."""

from __future__ import annotations

import json
import stat
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from lab import Lab

from peel_gateway.alarm import Alarm
from peel_gateway.engine.engine import BatchReport, Engine
from peel_gateway.metrics import Metrics
from peel_gateway.model.mail import Mail
from peel_gateway.mqtt.inbox import Delivery, Inbox
from peel_gateway.mqtt.ingest import Ingest
from peel_gateway.mqtt.receipts import Receipts
from peel_gateway.settings import Settings
from peel_gateway.storage.store import StoreFailed

POISON = b"poison"


class Receiver:
    """Takes acknowledgements down; everything else of a receiver is not asked for."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []

    def acknowledge(self, batch: Sequence[Delivery]) -> None:
        self.acknowledged += [identifier for delivery in batch for identifier in delivery.identifiers.tolist()]


@pytest.mark.parametrize("error", [ValueError("cannot be understood"), StoreFailed("string or blob too big")])
def test_a_message_that_cannot_be_stored_is_set_aside(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    process = Engine.process

    def fail(self: Engine, messages: Any, **options: Any) -> BatchReport:
        if isinstance(messages, Mail) and POISON in map(messages.payload, range(len(messages))):
            raise error
        return process(self, messages, **options)

    monkeypatch.setattr(Engine, "process", fail)
    metrics, receiver, ended = Metrics(), Receiver(), threading.Event()
    inbox = Inbox(limit_messages=100, limit_bytes=10**6)
    anybody: Any = receiver
    ingest = Ingest(
        Settings(store_path=lab.path, fleet_folder=lab.path.parent),
        lab.engine,
        inbox,
        anybody,
        metrics,
        alarm=Alarm(metrics, lambda about, document: None),
        receipts=Receipts(lab.engine, "lab", lambda receipts: None, pause=10),
        on_end=ended.set,
    )
    link: Any = None
    frames = lab.frames(1, range(1, 21))
    frames[7] = POISON
    for identifier, message in enumerate(lab.messages(frames), start=1):
        inbox.put(Delivery(Mail.of([message]), link, np.array([identifier], np.uint16), time.monotonic()))
    ingest.start()
    assert ingest.stop(60)
    assert ingest.failure is None
    assert receiver.acknowledged == list(range(1, 21))
    assert lab.store.log().number.tolist() == [*range(1, 8), *range(9, 21)]
    (kept,) = lab.path.with_name(lab.path.name + ".unstorable").iterdir()
    assert bytes.fromhex(json.loads(kept.read_text())["payload"]) == POISON
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert b"peel_messages_set_aside_total 1.0" in metrics.exposition()
