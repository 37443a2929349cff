# SPDX-License-Identifier: MIT
"""Verified coins on the engine: held until opened, counted as one group, and exposed by proof."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lab import MakeLab, harmony_profile, hashing_profile, krr_profile
from verified import Talker, coins_of, verified

from peel_core import Profile
from peel_gateway.engine.recount import recount
from peel_gateway.model.verdict import Verdict


@pytest.mark.parametrize(
    ("profile", "reading"),
    [(harmony_profile(4), 0.5), (krr_profile(4, epsilon=2.0), 1), (hashing_profile(500, epsilon=1.0), 7)],
    ids=["signs", "choice", "hashed"],
)
def test_reports_count_once_their_coins_are_opened(make_lab: MakeLab, profile: Profile, reading: float) -> None:
    lab = make_lab(verified(profile), devices=1)
    talker = Talker(lab)
    talker.ready()
    assert talker.talk(talker.report(20, reading))["held"] == 20
    (before,) = lab.estimates()
    assert before.n == 0
    counts = talker.finish()
    assert counts == {"accepted": 20}
    (after,) = lab.estimates()
    assert after.n == 20
    found = recount(lab.store, lab)
    assert found.agrees, found.differences


def test_the_counted_answer_is_a_fair_coin_on_the_reading(make_lab: MakeLab) -> None:
    """8 of 11 outcomes keep the answer, whatever masks and challenges are."""
    lab = make_lab(verified(harmony_profile(1)), devices=1)
    talker = Talker(lab)
    for _ in range(30):
        talker.ready()
        talker.talk(talker.report(40, 1.0))
        talker.finish()
    (found,) = lab.estimates()
    assert found.n == 1200
    tally = lab.store.device_tallies(lab.profiles[0].id)
    plus = int(tally.plus.sum())
    assert abs(plus - 1200 * 8 / 11) < 4 * np.sqrt(1200 * 8 / 11 * 3 / 11)


def test_reports_without_a_reading_need_no_coin(make_lab: MakeLab) -> None:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.ready()
    talker.talk([*talker.report(3, 0.5), *talker.report(2, missing=True), *talker.report(4, 0.5)])
    assert lab.store.counts().verdicts[Verdict.NO_READING] == 2, "there is no coin to wait for"
    assert talker.finish() == {"accepted": 7}
    assert recount(lab.store, lab).agrees


def test_nothing_counts_before_every_coin_of_the_group_is_opened(make_lab: MakeLab) -> None:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.ready()
    talker.talk(talker.report(10, 0.5))
    talker.ready()
    lab.now += lab.store.bucket_seconds
    talker.talk()
    messages = talker.coins.messages()
    openings = [message for message in messages if message[1] == 3]
    assert len(openings) == 10
    assert lab.send(openings[:-1]) == {}
    later = talker.report(5, 0.5)
    lab.now += lab.store.bucket_seconds
    assert lab.send(later)["held"] == 5 and lab.send([]) == {}, "the next group waits too"
    (found,) = lab.estimates()
    assert found.n == 0
    assert lab.send(openings[-1:])["accepted"] == 10, "a late opening counts"


def test_the_profile_says_when_reports_are_challenged(make_lab: MakeLab) -> None:
    """A group has whole time buckets of the profile, which may have several of the database."""
    lab = make_lab(replace(verified(harmony_profile(4)), bucket=900), devices=1)
    lab.now = lab.now // 900 * 900
    talker = Talker(lab)
    talker.ready()
    for count in (5, 6, 7):
        talker.talk(talker.report(count, 0.5))
        talker.ready()  # no audit waits, so that a challenge does not
        lab.now += lab.store.bucket_seconds - 1
        talker.talk()
        assert talker.said[-1].challenge == (), "the time bucket has not ended"
        lab.now += 1
    talker.talk()
    assert sum(last - first + 1 for first, last in talker.said[-1].challenge) >= 18
    assert talker.talk()["accepted"] == 18


def test_a_malformed_table_that_is_audited_exposes_the_device(make_lab: MakeLab) -> None:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    coins = talker.coins
    (commitment,) = coins.messages()
    batch = coins._batches[0]
    talker.talk()  # committed, and the audit is known
    revealed = [number for number in batch.numbers if batch.revealed(number)]
    wrong = bytearray(coins._seeds(batch))
    wrong[16 * (len(revealed) - 1)] ^= 1  # a seed that is not that of the committed root
    answer = coins._seal(2, batch.first, bytes(wrong))
    assert lab.send([answer]) == {"coin": 1}
    devices = lab.store.devices()
    assert devices.withdrawn.tolist() == [1]
    assert commitment[1] == 1


def test_an_answer_to_another_audit_of_the_batch_exposes_nobody(make_lab: MakeLab) -> None:
    """After a restore, the answer to an audit that the gateway has lost may arrive late. All its seeds fit their roots."""
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.talk()  # committed, and the audit is known
    (batch,) = talker.coins._batches
    audited = [number for number in batch.numbers if batch.revealed(number)]
    others = [number for number in batch.numbers if not batch.revealed(number)][: len(audited)]

    def answer(numbers: list[int]) -> bytes:
        return talker.coins._seal(2, batch.first, talker.coins.seeds(numbers).tobytes())

    assert lab.send([answer(sorted([*others[1:], audited[0]]))]) == {}
    assert not lab.store.devices().cause.any()
    talker.ready()
    talker.talk(talker.report(5, 1.0))
    assert talker.finish()["accepted"] == 5
    talker.talk(talker.report(60, 1.0))
    while talker.coins._batches[-1].first <= talker.coins._approved:
        talker.talk()
    batch = talker.coins._batches[-1]
    numbers = list(batch.numbers)
    assert lab.send([answer([*numbers[:7], numbers[6]])]) == {"coin": 1}, "a number twice"


def test_a_wrong_opening_exposes_the_device(make_lab: MakeLab) -> None:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.ready()
    talker.talk(talker.report(3, 0.5))
    lab.now += lab.store.bucket_seconds
    talker.talk()
    challenge = talker.coins._challenges[1]
    number = challenge.numbers[0]
    opening = next(each for each in talker.coins.messages() if each[1] == 3)
    body = bytearray(lab.profiles[0].opening_bytes)
    forged = talker.coins._seal(3, number, bytes(body))
    assert opening[1] == 3 and lab.send([forged]) == {"coin": 1}
    (found,) = lab.estimates()
    assert found.n == 0
    assert recount(lab.store, lab).agrees


def test_a_report_without_a_committed_coin_is_refused(make_lab: MakeLab) -> None:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    assert lab.send(lab.frames(1, [4000], 0.5)) == {"uncommitted": 1}
    talker = Talker(lab)
    talker.ready()
    batch = talker.coins._batches[0]
    revealed = next(number for number in batch.numbers if batch.revealed(number))
    assert lab.send(talker.reports([revealed], 0.5)) == {"uncommitted": 1}
    assert lab.store.devices().cause.tolist() in ([], [0]), "nobody is blamed"


def test_two_reports_under_one_number_expose_the_device(make_lab: MakeLab) -> None:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.ready()
    number = next(talker.coins.free())
    first = talker.reports([number], 1.0)
    assert lab.send(first)["held"] == 1
    assert lab.send(first) == {"redelivered": 1}
    other = next(frame for frame in (talker.reports([number], -1.0) for _ in range(64)) if frame != first)
    assert lab.send(other) == {"reused": 1}
    assert lab.store.devices().withdrawn.tolist() == [1]


def test_a_second_commitment_for_committed_numbers_is_ignored(make_lab: MakeLab) -> None:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker, other = Talker(lab), Talker(lab)
    talker.talk()
    before = coins_of(lab.store)
    lab.send(other.coins.messages())
    after = coins_of(lab.store)
    assert vars(before.table) == vars(after.table)


def test_commitments_beyond_the_reserve_are_ignored(make_lab: MakeLab) -> None:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    for _ in range(20):
        talker.coins._make_batch()
        talker.talk()
    assert talker.coins.reserve < coins_of(lab.store).free < talker.coins.reserve + 64 + 32


def test_a_withheld_opening_holds_all_later_reports(make_lab: MakeLab) -> None:
    """Falling silent after a bad challenge costs the device all that it sends later."""
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.ready()
    talker.talk(talker.report(5, 1.0))
    lab.now += lab.store.bucket_seconds
    talker.hear()
    for _ in range(5):
        lab.now += lab.store.bucket_seconds
        assert lab.send(talker.report(3, 1.0)).get("accepted", 0) == 0
    (found,) = lab.estimates()
    assert found.n == 0
    stored = coins_of(lab.store)
    assert stored.held == 20 and stored.asked > 0
    assert stored.era != bytes(8)


def test_a_restored_database_begins_a_new_era(make_lab: MakeLab) -> None:
    """A copy that is put back must not challenge again what a device has answered: all open batches are void."""
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.ready()
    talker.talk(talker.report(5, 1.0))
    before = coins_of(lab.store)
    assert before.held == 5
    lab.reopen()
    talker.talk()
    assert coins_of(lab.store).era == before.era, "a restart is not a restore"
    with lab.store.begin() as transaction:
        transaction.renew_mark(transaction.mark + 1)  # another mark than the one beside the database, as a copy has
    lab.reopen()
    talker.talk()
    later = coins_of(lab.store)
    assert later.era[::-1] > before.era[::-1] and not later.held
    assert lab.store.counts().verdicts[Verdict.VOID] == 5
    talker.ready()
    talker.talk(talker.report(5, 1.0))
    assert talker.finish()["accepted"] == 5
    assert recount(lab.store, lab).agrees


def test_a_fresh_bundle_drops_what_the_device_cannot_answer(make_lab: MakeLab) -> None:
    """A device that lost its flash gets a fresh bundle. Its held reports never count, and it does not stall."""
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.ready()
    talker.talk(talker.report(5, 1.0))
    lab.now += lab.store.bucket_seconds
    talker.hear()
    lab.issued[1] = (10_001, lab.now)
    lab.provision(1, 10_001)
    fresh = Talker(lab, first=10_001)
    fresh.ready()
    stored = coins_of(lab.store)
    assert not stored.held and stored.batches.first[0] == 10_001
    fresh.talk(fresh.report(5, 1.0))
    assert fresh.finish()["accepted"] == 5
    assert recount(lab.store, lab).agrees


def test_copies_in_one_batch_do_not_get_around_the_coin(make_lab: MakeLab) -> None:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.ready()
    frames = talker.report(5, 1.0)
    counts = lab.send([*frames, *frames])
    assert (counts["held"], counts["redelivered"]) == (5, 5), "held once, and nothing counts yet"
    (found,) = lab.estimates()
    assert found.n == 0
    assert talker.finish()["accepted"] == 5


def test_two_reports_under_one_number_in_one_batch_expose_the_device(make_lab: MakeLab) -> None:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.ready()
    number = next(talker.coins.free())
    first = talker.reports([number], 1.0)
    other = next(frame for frame in (talker.reports([number], -1.0) for _ in range(64)) if frame != first)
    counts = lab.send([*first, *other])
    assert (counts["reused"], counts["withdrawn"]) == (1, 1)
    (found,) = lab.estimates()
    assert found.n == 0
    assert lab.store.devices().withdrawn.tolist() == [1]


def test_copies_of_an_uncommitted_report_are_refused_too(make_lab: MakeLab) -> None:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    frames = lab.frames(1, [5], 0.5)
    counts = lab.send([*frames, *frames])
    assert "accepted" not in counts and counts["uncommitted"] >= 1
    bad = lab.frames(1, [6], 0.5, odds=(22, 3))
    assert lab.send(bad) == {"uncommitted": 1}, "it is refused before its content is judged"
    assert lab.store.devices().withdrawn.tolist() in ([], [0])


def test_a_committed_number_far_ahead_does_not_get_around_the_coin(make_lab: MakeLab) -> None:
    """Its device has nothing in the log yet, so that the number could pass for its first."""
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.ready()
    near = talker.report(1, 1.0)
    talker.coins._next = 2**40
    far = talker.coins._make_batch().first
    for _ in range(4):
        talker.talk()
    (number, *_) = (each for each in talker.coins.free_approved() if each >= far)
    counts = lab.send([*near, *talker.reports([number], 1.0)])
    assert counts["flood"] == 1 and "held" not in counts and "accepted" not in counts
    (found,) = lab.estimates()
    assert found.n == 0


def test_a_device_that_never_opens_gets_no_more_numbers(make_lab: MakeLab) -> None:
    """The database holds a bounded number of reports of each device."""
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    for _ in range(40):
        frames = [frame for frame in talker.coins.messages() if frame[1] != 3]  # all but openings
        lab.send([*frames, *talker.report(min(20, len(list(talker.coins.free_approved()))), 1.0)])
        talker.hear()
        lab.now += lab.store.bucket_seconds
    stored = coins_of(lab.store)
    assert 200 < stored.held < 400 and stored.free < 20
