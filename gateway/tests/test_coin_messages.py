# SPDX-License-Identifier: MIT
"""Messages of verified coins that do not fit: they change nothing and blame nobody, and what a device can fill is bounded."""

from __future__ import annotations

import os

import numpy as np
import pytest
from lab import Lab, MakeLab, harmony_profile
from verified import Talker, coins_of, verified

from peel_core.coins import AUDIT_ANSWER, BATCH_NUMBERS, COMMITMENT, OPENING, ROOT_BYTES
from peel_gateway.engine import coins
from peel_gateway.engine.coins import reserve
from peel_gateway.engine.recount import recount
from peel_gateway.model.tables import Slots

WHOLE = BATCH_NUMBERS * ROOT_BYTES
SEED = 16


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    return make_lab(verified(harmony_profile(4)), devices=3)


def blamed(lab: Lab) -> bool:
    """Return whether a device is exposed."""
    return bool(lab.store.devices().cause.any())


@pytest.mark.parametrize("size", [0, 1, ROOT_BYTES, WHOLE - ROOT_BYTES, WHOLE - 1])
def test_a_commitment_of_the_wrong_size_is_no_commitment(lab: Lab, size: int) -> None:
    talker = Talker(lab)
    lab.send([talker.coins._seal(COMMITMENT, 1, os.urandom(size))])
    assert len(coins_of(lab.store).batches.records) == 0
    assert not blamed(lab)
    talker.ready()
    assert talker.talk(talker.report(3, 0.5))["held"] == 3


@pytest.mark.parametrize("count", [0, 1, 7, 9, 32])
def test_an_audit_answer_of_the_wrong_size_blames_nobody(lab: Lab, count: int) -> None:
    talker = Talker(lab)
    talker.talk()
    lab.send([talker.coins._seal(AUDIT_ANSWER, 1, bytes(SEED * count))])
    assert coins_of(lab.store).batches.waiting.all(), "the audit is still open"
    assert not blamed(lab)


def test_an_audit_answer_that_nobody_asked_for_blames_nobody(lab: Lab) -> None:
    talker = Talker(lab)
    talker.ready()
    before = coins_of(lab.store)
    audits = talker.coins.profile.audits
    lab.send([talker.coins._seal(AUDIT_ANSWER, number, bytes(SEED * audits)) for number in (1, 2, 33, 10_000)])
    assert vars(coins_of(lab.store).table) == vars(before.table)
    assert not blamed(lab)


def test_openings_of_numbers_without_a_challenge_blame_nobody(lab: Lab) -> None:
    """Wrong ones too: a report that was never sent, one that waits for its bucket to end, and one that has counted."""
    talker = Talker(lab)
    talker.ready()
    counted, waiting, *_, never = talker.coins.free()
    talker.talk(talker.reports([counted], 0.5))
    assert talker.finish() == {"accepted": 1}
    talker.talk(talker.reports([waiting], 0.5))
    wrong = bytes(talker.coins.profile.opening_bytes)
    lab.send([talker.coins._seal(OPENING, number, wrong) for number in (counted, waiting, never, 10_000)])
    assert not blamed(lab)
    assert talker.finish() == {"accepted": 1}
    assert recount(lab.store, lab).agrees


def test_a_flood_of_commitments_fills_nothing(lab: Lab) -> None:
    talker = Talker(lab)
    talker.ready()
    before, size = coins_of(lab.store), lab.store.size_bytes()
    first = int(before.table.committed[0]) + 1
    numbers = range(first, first + 2000 * BATCH_NUMBERS, BATCH_NUMBERS)
    lab.send([talker.coins._seal(COMMITMENT, number, os.urandom(WHOLE)) for number in numbers])
    kept = coins_of(lab.store)
    most = 2 * reserve(talker.coins.profile) // BATCH_NUMBERS + 2
    assert len(kept.batches.records) <= len(before.batches.records) + 1 <= most
    assert lab.store.size_bytes() < size + 100_000, "of a megabyte that was sent"
    assert not blamed(lab)


def test_a_device_that_reports_for_long_keeps_few_batches(lab: Lab) -> None:
    talker = Talker(lab)
    most = 2 * reserve(talker.coins.profile) // BATCH_NUMBERS + 2
    for _ in range(3 * most):
        talker.ready()
        talker.talk(talker.report(BATCH_NUMBERS, 0.5))
        talker.finish()
    stored = coins_of(lab.store)
    assert len(stored.batches.records) <= most + 1
    with lab.store.begin() as transaction:
        roots = transaction.roots(np.full(len(stored.batches.records), 1), stored.batches.first)
    assert roots.shape == (len(stored.batches.records), BATCH_NUMBERS, ROOT_BYTES)
    assert recount(lab.store, lab).agrees, "no roots without a batch"


def test_the_coins_of_idle_devices_leave_the_memory(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """And come back from the database when they are needed."""
    monkeypatch.setattr(coins, "_MOST_ROWS", 4)
    lab = make_lab(verified(harmony_profile(4)), devices=20)
    talkers = [Talker(lab, device) for device in range(1, 21)]
    for talker in talkers:
        talker.ready()
        assert talker.talk(talker.report(2, 0.5))["held"] == 2
    cache = lab.engine._coins
    assert cache is not None and sum(cache.find(Slots(np.array([place]))) is not None for place in range(20)) <= 5
    lab.now += lab.store.bucket_seconds
    for _ in range(4):
        for talker in talkers:
            talker.talk()
    (found,) = lab.estimates()
    assert found.n == 40
    assert recount(lab.store, lab).agrees
