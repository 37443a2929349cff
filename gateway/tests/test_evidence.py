# SPDX-License-Identifier: MIT
"""Evidence of exposures: each kind is recomputed from its file, and no changed byte gets through."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lab import Lab, MakeLab, harmony_profile, hashing_profile
from verified import Talker, verified

from peel_core import index_many
from peel_core.coins import AUDIT_ANSWER, OPENING
from peel_core.frame import NUMBER
from peel_core.hashing import hashed
from peel_gateway.engine.evidence import GIVES_AWAY, EvidenceError, collect, digest_of_document
from peel_gateway.engine.pardon import pardon
from peel_gateway.engine.proof import check
from peel_gateway.model.verdict import BLAMED, Verdict

FLIPS = 40


def evidence(lab: Lab) -> dict[str, Any]:
    """Return the newest exposure's evidence, as a file has it."""
    (newest,) = lab.store.exposures(limit=1)
    document: dict[str, Any] = json.loads(json.dumps(collect(lab.store, lab.keyring, "lab", newest.id)))
    assert document["verdict"] == newest.verdict.label
    return document


def reseal(document: dict[str, Any], **changes: Any) -> str:
    """Return a changed document with a digest that fits."""
    made = {**document, **changes}
    return json.dumps(made | {"digest": digest_of_document(made)})


def another_rule(make_lab: MakeLab) -> Lab:
    lab = make_lab()
    lab.send([lab.sealed(1, 1, rule=0x05060708)])
    return lab


def another_attribute(make_lab: MakeLab) -> Lab:
    lab = make_lab()
    lab.send([lab.sealed(1, number, index) for number, index in ((1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0))])
    return lab


def no_codeword(make_lab: MakeLab) -> Lab:
    lab = make_lab()
    lab.send([lab.sealed(1, 1, trits=bytes([121]) * 9 + bytes([40]))])
    return lab


def used_twice(make_lab: MakeLab) -> Lab:
    lab = make_lab()
    lab.send([lab.sealed(1, 1), lab.sealed(1, 2)])
    lab.send([lab.sealed(1, 2, minus=1)])
    return lab


def far_ahead(make_lab: MakeLab) -> Lab:
    lab = make_lab(harmony_profile(quota=10, period=3600))
    lab.send(lab.frames(1, [1]))
    lab.send(lab.frames(1, [100_000]))
    return lab


def always_plus(make_lab: MakeLab) -> Lab:
    lab = make_lab()
    for begin in range(1, 400, 50):
        lab.send([lab.sealed(1, number) for number in range(begin, begin + 50)])
    return lab


def always_one_category(make_lab: MakeLab) -> Lab:
    """The symbol that category 5 hashes to, with every third number missing."""
    lab = make_lab(hashing_profile(200))
    (block,) = lab.profiles[0].blocks
    for begin in range(1, 900, 60):
        numbers = [number for number in range(begin, begin + 60) if number % 3]
        unit = index_many(lab.profiles[0], np.ones(len(numbers)), lab.keys_of(1, numbers), numbers)
        symbols = hashed(unit - block.first_unit, 5, block.outcomes, block.domain).tolist()
        lab.send(
            [lab.sealed(1, number, block.first_column + each) for number, each in zip(numbers, symbols, strict=True)]
        )
    return lab


def wrong_seed(make_lab: MakeLab) -> Lab:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.talk()
    batch = talker.coins._batches[0]
    answer = bytearray(talker.coins._seeds(batch))
    answer[20] ^= 1
    lab.send([talker.coins._seal(AUDIT_ANSWER, batch.first, bytes(answer))])
    return lab


def challenged(make_lab: MakeLab) -> tuple[Lab, Talker]:
    """Return a device whose reports are challenged."""
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.ready()
    talker.talk(talker.report(5, 0.5))
    talker.ready()
    lab.now += lab.store.bucket_seconds
    lab.send([])
    talker.hear()
    return lab, talker


def wrong_opening(make_lab: MakeLab) -> Lab:
    lab, talker = challenged(make_lab)
    opening = next(message for message in talker.coins.messages() if message[1] == OPENING)
    lab.send([talker.coins._seal(OPENING, NUMBER.of(opening), bytes(talker.coins.profile.opening_bytes))])
    return lab


CASES: dict[str, tuple[Callable[[MakeLab], Lab], Verdict]] = {
    "another rule": (another_rule, Verdict.RULE),
    "another attribute": (another_attribute, Verdict.SUPPORT),
    "no codeword": (no_codeword, Verdict.STRUCTURE),
    "a number used twice": (used_twice, Verdict.REUSED),
    "far ahead": (far_ahead, Verdict.FLOOD),
    "always plus": (always_plus, Verdict.STATISTICS),
    "always one category": (always_one_category, Verdict.STATISTICS),
    "a wrong seed": (wrong_seed, Verdict.COIN),
    "a wrong opening": (wrong_opening, Verdict.COIN),
}


def test_every_verdict_that_blames_a_device_has_a_case() -> None:
    assert {verdict for _, verdict in CASES.values()} == BLAMED


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_recomputed(make_lab: MakeLab, case: str) -> None:
    make, verdict = CASES[case]
    document = evidence(make(make_lab))
    proof = check(json.dumps(document))
    assert (proof.verdict, proof.device) == (verdict, 1)
    assert len(proof.steps) >= 3
    assert document["gives_away"] in GIVES_AWAY.values()
    assert set(document["keys"]) <= {"seal", "index", "coin"}
    assert ("seal" in document["keys"]) == (verdict not in (Verdict.COIN, Verdict.STATISTICS))


@pytest.mark.parametrize("case", CASES)
def test_a_changed_byte_is_refused(make_lab: MakeLab, case: str) -> None:
    text = bytearray(json.dumps(evidence(CASES[case][0](make_lab))).encode())
    chance = random.Random(1)
    for place in chance.sample(range(len(text)), FLIPS):
        changed = bytearray(text)
        changed[place] ^= 1
        with pytest.raises(EvidenceError):
            check(bytes(changed))


@pytest.mark.parametrize("case", CASES)
def test_a_changed_frame_is_refused_with_a_digest_that_fits_too(make_lab: MakeLab, case: str) -> None:
    document = evidence(CASES[case][0](make_lab))
    frame = bytearray.fromhex(document["frame"])
    for place in range(len(frame)):
        changed = bytearray(frame)
        changed[place] ^= 1
        with pytest.raises(EvidenceError):
            check(reseal(document, frame=changed.hex()))


@pytest.mark.parametrize("case", CASES)
def test_it_proves_no_other_verdict(make_lab: MakeLab, case: str) -> None:
    make, verdict = CASES[case]
    document = evidence(make(make_lab))
    for other in BLAMED - {verdict}:
        with pytest.raises(EvidenceError):
            check(reseal(document, verdict=other.label))


def test_another_profile_is_refused(make_lab: MakeLab) -> None:
    document = evidence(another_rule(make_lab))
    with pytest.raises(EvidenceError, match="profile"):
        check(reseal(document, profile=document["profile"] | {"seed": 5}))


def test_an_honest_log_proves_nothing(make_lab: MakeLab) -> None:
    """The log without its last reports does not reach the limit."""
    document = evidence(always_plus(make_lab))
    log = document["log"]
    reports = {name: column[:20] for name, column in log["reports"].items()}
    with pytest.raises(EvidenceError, match="the limit"):
        check(reseal(document, log=log | {"reports": reports}))


def test_a_right_opening_proves_nothing(make_lab: MakeLab) -> None:
    """The frame of an honest opening in place of the wrong one."""
    lab, talker = challenged(make_lab)
    right = next(message for message in talker.coins.messages() if message[1] == OPENING)
    number = NUMBER.of(right)
    lab.send([talker.coins._seal(OPENING, number, bytes(talker.coins.profile.opening_bytes))])
    with pytest.raises(EvidenceError, match="the opening is right"):
        check(reseal(evidence(lab), frame=right.hex()))


def test_right_seeds_prove_nothing(make_lab: MakeLab) -> None:
    lab = make_lab(verified(harmony_profile(4)), devices=1)
    talker = Talker(lab)
    talker.talk()
    batch = talker.coins._batches[0]
    right = talker.coins._seeds(batch)
    lab.send([talker.coins._seal(AUDIT_ANSWER, batch.first, right[:-1] + bytes([right[-1] ^ 1]))])
    honest = talker.coins._seal(AUDIT_ANSWER, batch.first, right)
    with pytest.raises(EvidenceError, match="make the committed roots"):
        check(reseal(evidence(lab), frame=honest.hex()))


def test_an_exposure_before_a_pardon_is_recomputed_from_its_own_events(make_lab: MakeLab) -> None:
    lab = always_plus(make_lab)
    (before,) = lab.store.exposures(limit=1)
    pardon(lab.store, [1], restore=False, reason="a test", who="test", clock=lab.clock)
    lab.send([lab.sealed(1, number) for number in range(500, 520)])
    document = collect(lab.store, lab.keyring, "lab", before.id)
    assert max(document["log"]["reports"]["number"]) < 500
    assert check(json.dumps(document)).verdict is Verdict.STATISTICS


def test_what_was_deleted_from_the_log_is_in_the_state_that_the_rest_begins_with(make_lab: MakeLab) -> None:
    lab = always_plus(make_lab)
    whole = len(evidence(lab)["log"]["reports"]["number"])
    assert lab.prune(lab.now + 1) == whole
    document = evidence(lab)
    assert document["log"]["base"] and not document["log"]["reports"]["number"]
    assert check(json.dumps(document)).verdict is Verdict.STATISTICS
    with pytest.raises(EvidenceError):
        check(reseal(document, log=document["log"] | {"base": document["log"]["base"][:-2]}))


def test_a_first_report_that_was_deleted_cannot_be_compared(make_lab: MakeLab) -> None:
    lab = used_twice(make_lab)
    lab.prune(lab.now + 1)
    with pytest.raises(EvidenceError, match="has left the log"):
        evidence(lab)


def test_there_is_no_evidence_where_nobody_is_blamed(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.send([b"nonsense"])
    (quarantined,) = lab.store.exposures(limit=1)
    with pytest.raises(EvidenceError, match="blames no device"):
        collect(lab.store, lab.keyring, "lab", quarantined.id)
    with pytest.raises(EvidenceError, match="not in the database"):
        collect(lab.store, lab.keyring, "lab", quarantined.id + 1)


def test_a_device_of_another_profile_id_is_not_in_the_fleet(make_lab: MakeLab) -> None:
    lab = another_rule(make_lab)
    others = make_lab(replace(harmony_profile(), name="other"))
    (exposure,) = lab.store.exposures(limit=1)
    with pytest.raises(EvidenceError, match="no longer in the fleet folder"):
        collect(lab.store, others.keyring, "lab", exposure.id)
