# SPDX-License-Identifier: MIT
"""From the inbox to the store: one message that cannot be stored must not stop those behind it."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from databases import PostgresSchema
from lab import Lab

from peel_gateway.engine.engine import BatchReport, Engine
from peel_gateway.metrics import Metrics
from peel_gateway.model.mail import Mail
from peel_gateway.model.message import Message
from peel_gateway.model.verdict import Verdict
from peel_gateway.mqtt.inbox import Delivery, Inbox
from peel_gateway.mqtt.ingest import Ingest
from peel_gateway.mqtt.receipts import Receipts
from peel_gateway.outlets.alarm import Alarm
from peel_gateway.settings import Settings
from peel_gateway.storage.postgres.leases import PostgresLeases
from peel_gateway.storage.store import StoreFailed, StoreLost

POISON = b"poison"


class Receiver:
    """Takes acknowledgements down; everything else of a receiver is not asked for."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []

    def acknowledge(self, batch: Sequence[Delivery]) -> None:
        self.acknowledged += [identifier for delivery in batch for identifier in delivery.identifiers.tolist()]


def make_ingest(
    path: Path, engine: Engine, receiver: Receiver, metrics: Metrics, messages: Sequence[Message]
) -> Ingest:
    """One whose inbox has these messages, one by one, numbered from 1."""
    inbox = Inbox(limit_messages=100, limit_bytes=10**6)
    anybody: Any = receiver
    link: Any = None
    for identifier, message in enumerate(messages, start=1):
        inbox.put(Delivery(Mail.of([message]), link, np.array([identifier], np.uint16), time.monotonic()))
    return Ingest(
        Settings(store_path=path, fleet_folder=path.parent),
        engine,
        inbox,
        anybody,
        metrics,
        alarm=Alarm(metrics, lambda about, document: None),
        receipts=Receipts(engine, "lab", lambda receipts: None, pause=10),
        on_end=lambda: None,
    )


def test_a_share_that_is_anothers_ends_the_ingest_and_nothing_is_acknowledged(
    lab: Lab, new_schema: Callable[[], PostgresSchema]
) -> None:
    """Not tried again, not set aside: the new owner gets these messages from the broker."""
    schema = new_schema()
    archive = schema.archive(shares=1)
    leases = PostgresLeases(archive.address)
    first = leases.acquire(0, "first", 0.001)
    assert first is not None
    engine = Engine(schema.open(epoch=first.epoch))
    engine.load(lab)
    assert engine.process(lab.messages(lab.frames(1, range(1, 4)))).counts == {Verdict.ACCEPTED: 3}
    assert leases.acquire(0, "second", 60) is not None
    receiver, metrics = Receiver(), Metrics()
    ingest = make_ingest(lab.path, engine, receiver, metrics, lab.messages(lab.frames(1, range(4, 9))))
    ingest.start()
    assert ingest.stop(30)
    assert isinstance(ingest.failure, StoreLost)
    assert receiver.acknowledged == []
    assert archive.counts().verdicts[Verdict.ACCEPTED] == 3
    assert not lab.path.with_name(lab.path.name + ".unstorable").exists()
    for each in (engine.store, leases, archive):
        each.close()


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
    metrics, receiver = Metrics(), Receiver()
    frames = lab.frames(1, range(1, 21))
    frames[7] = POISON
    ingest = make_ingest(lab.path, lab.engine, receiver, metrics, lab.messages(frames))
    ingest.start()
    assert ingest.stop(60)
    assert ingest.failure is None
    assert receiver.acknowledged == list(range(1, 21))
    assert lab.store.log().number.tolist() == [*range(1, 8), *range(9, 21)]
    (kept,) = lab.path.with_name(lab.path.name + ".unstorable").iterdir()
    assert bytes.fromhex(json.loads(kept.read_text())["payload"]) == POISON
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert b"peel_messages_set_aside_total 1.0" in metrics.exposition()
