# SPDX-License-Identifier: MIT
"""Verified coins and a gateway that lies, or a network that loses, repeats and reorders receipts."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest
from coin_gateway import DirectLink
from test_coins import World

from peel_core.coins import AUDIT_ANSWER, COMMITMENT, OPENING
from peel_core.frame import NUMBER

SEEDS = (bytes(range(16)), bytes(range(1, 17)))


class Quiet(World):
    """A device whose messages are recorded and never answered. The test gives it receipts."""

    def boot(self, **changes: Any) -> None:
        super().boot(**changes)
        self.sent: list[bytes] = []
        self.link = DirectLink(self.app, self.sent.append, lambda: None)
        self.app.link = self.link  # type: ignore[assignment]

    def hear(self, **fields: Any) -> list[tuple[int, int]]:
        """Give a receipt. Return the types and numbers of what the device sends."""
        del self.sent[:]
        self.app.settle(self.gateway.receipt(**fields))
        self.app.step()
        return self.messages()

    def opens(self, *runs: tuple[int, int], seed: bytes = SEEDS[0], **fields: Any) -> list[int]:
        """Give a receipt with a challenge. Return the numbers that the device opens."""
        sent = self.hear(challenge=runs, challenge_seed=seed, **fields)
        return [number for kind, number in sent if kind == OPENING]

    def messages(self) -> list[tuple[int, int]]:
        found = []
        for payload in self.sent:
            size = {0: 38, OPENING: 118}.get(payload[1], len(payload))
            found += [(payload[at + 1], NUMBER.of(payload[at:])) for at in range(0, len(payload), size)]
        return found


@pytest.fixture
def quiet(core: ModuleType) -> Quiet:
    """A device with one batch that waits for its audit."""
    made = Quiet(core)
    made.app.step()
    assert made.messages() == [(COMMITMENT, 1)]
    return made


@pytest.fixture
def reporting(quiet: Quiet) -> Quiet:
    """A device that has used the first 10 numbers; 25 to 32 are revealed."""
    quiet.hear(audit_first=1, audit=0xFF000000)
    quiet.hear(approved=1)
    for _ in range(300):
        if quiet.app.ledger.next_number > 10:
            break
        quiet.app.step()
    assert max(number for kind, number in quiet.messages() if kind == 0) < 12
    quiet.hear()
    return quiet


def used(world: World) -> int:
    return world.app.ledger.next_number - 1


@pytest.mark.parametrize(
    "audit",
    [0, 0x7F, 0x1FF, 0xFFFF, 0xFFFFFFFF],
    ids=["none", "one less", "one more", "twice as many", "all"],
)
def test_an_audit_of_the_wrong_size_is_ignored(quiet: Quiet, audit: int) -> None:
    assert quiet.hear(audit_first=1, audit=audit) == []
    assert quiet.hear(audit_first=1, audit=0xFF) == [(AUDIT_ANSWER, 1)]


@pytest.mark.parametrize("first", [2, 33, 2**47])
def test_an_audit_of_another_batch_reveals_nothing(quiet: Quiet, first: int) -> None:
    sent = quiet.hear(audit_first=first, audit=0xFF)
    assert AUDIT_ANSWER not in [kind for kind, _ in sent]


@pytest.mark.parametrize("again", [False, True])
def test_a_batch_takes_one_audit(quiet: Quiet, again: bool) -> None:
    quiet.hear(audit_first=1, audit=0xFF)
    answer = quiet.sent[0]
    if again:
        quiet.boot()
        quiet.app.step()
        assert quiet.sent == [answer]
    assert quiet.hear(audit_first=1, audit=0xFF00) == []
    quiet.hear(approved=1)
    assert quiet.coins.usable(1, 1) == [9]


def test_nothing_is_reported_before_the_approval(quiet: Quiet) -> None:
    quiet.hear(audit_first=1, audit=0xFF)
    quiet.run(10)
    assert 0 not in [kind for kind, _ in quiet.messages()]
    quiet.hear(approved=1)
    quiet.run(3)
    assert [number for kind, number in quiet.messages() if kind == 0][:2] == [9, 10]


def test_an_approval_without_an_audit_voids_the_batch(quiet: Quiet) -> None:
    secret = quiet.secrets()[1]
    quiet.hear(approved=1)
    assert secret not in quiet.secrets().values()
    assert quiet.coins.approved(1) == 0


def test_an_approval_of_an_unknown_batch_means_an_old_image(quiet: Quiet) -> None:
    quiet.hear(approved=1000)
    assert min(quiet.secrets()) > 1031
    assert quiet.app.ledger.next_number > 1031


def test_a_number_is_in_one_challenge(reporting: Quiet) -> None:
    assert reporting.opens((3, 5)) == [3, 4, 5]
    for seed, runs, opened in [
        (SEEDS[1], ((3, 5),), 0),
        (SEEDS[1], ((6, 7),), 0),
        (SEEDS[1], ((3, 5),), 1),
        (SEEDS[0], ((3, 5),), 1),
        (SEEDS[1], ((1, 3),), 1),
        (SEEDS[1], ((1, 2), (5, 5)), 7),
    ]:
        assert reporting.opens(*runs, seed=seed, opened=opened) == [], (runs, opened)
    assert reporting.opens((1, 2), (6, 6), seed=SEEDS[1], opened=1) == [1, 2, 6]
    reporting.boot()
    assert reporting.opens((3, 5), seed=SEEDS[1], opened=2) == []


def test_an_answer_is_repeated_after_a_restart_with_the_same_bytes(reporting: Quiet) -> None:
    reporting.hear(challenge=((1, 7),), challenge_seed=SEEDS[0])
    first = list(reporting.sent)
    reporting.boot()
    reporting.app.step()
    assert [each for each in reporting.sent if each[1] == OPENING] == first


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param(((5, 24),), id="not all are reported"),
        pytest.param(((20, 20),), id="not reported"),
        pytest.param(((25, 30),), id="revealed only"),
        pytest.param(((1, 2), (40, 40)), id="a batch that waits"),
        pytest.param(((1, 2), (5000, 5010)), id="no batch"),
        pytest.param(((1, 60000),), id="far too many"),
        pytest.param(((2**40, 2**40),), id="out of sight"),
    ],
)
def test_a_challenge_with_a_wrong_number_is_ignored_as_a_whole(
    reporting: Quiet, runs: tuple[tuple[int, int], ...]
) -> None:
    assert used(reporting) < 20
    assert reporting.opens(*runs) == []
    assert reporting.coins.pending is None
    assert reporting.opens((1, 1)) == [1]


def test_revealed_numbers_in_a_run_are_not_opened(core: ModuleType) -> None:
    quiet = Quiet(core)
    quiet.app.step()
    quiet.hear(audit_first=1, audit=0b111111110)
    quiet.hear(approved=1)
    while used(quiet) < 12:
        quiet.app.step()
    assert quiet.opens((1, 12)) == [1, 10, 11, 12]


def test_a_lower_era_is_ignored(reporting: Quiet) -> None:
    lower = (reporting.gateway.era - 1).to_bytes(8, "little")
    assert reporting.opens((1, 1), era=lower) == []
    assert reporting.opens((1, 1), era=lower, approved=100_000) == []
    higher = (reporting.gateway.era + 1).to_bytes(8, "little")
    reporting.hear(era=higher)
    assert 1 not in reporting.secrets()
    assert reporting.opens((1, 1)) == []
    reporting.boot()
    assert reporting.opens((1, 1)) == []
    assert reporting.opens((1, 1), era=higher) == []


@pytest.mark.parametrize("seed", range(4))
def test_lost_repeated_and_reordered_messages_break_nothing(core: ModuleType, seed: int) -> None:
    """A third of all messages in both directions is lost, and old receipts come again. The gateway asserts the rules."""
    rng = random.Random(seed)
    world = World(core)
    old: list[bytes] = []

    def deliver(payload: bytes) -> None:
        if rng.random() > 0.3:
            world.gateway.take(payload)

    def fetch() -> bytes | None:
        old.append(world.gateway.receipt())
        if rng.random() < 0.3:
            return rng.choice(old)
        return old[-1] if rng.random() < 0.5 else None

    for _ in range(6):
        world.link = DirectLink(world.app, deliver, fetch)
        world.app.link = world.link  # type: ignore[assignment]
        world.run(rng.randrange(20, 80), bucket=rng.choice([1, 10, 30]))
        if rng.random() < 0.5:
            world.boot()
        if rng.random() < 0.2:
            world.gateway.new_era()
    world.link = DirectLink(world.app, world.gateway.take, world.gateway.receipt)
    world.app.link = world.link  # type: ignore[assignment]
    world.run(200, bucket=10)
    opened = len(world.gateway.counted)
    assert opened > 150
    world.run(100, bucket=10)
    assert len(world.gateway.counted) > opened + 60, "it goes on"
