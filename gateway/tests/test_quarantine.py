# SPDX-License-Identifier: MIT
"""The quarantine: bounded, oldest first out, and replayed once."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from lab import Lab, MakeLab, Makers

from peel_core import Keyring
from peel_gateway.engine.recount import recount
from peel_gateway.engine.replay import replay
from peel_gateway.metrics import Metrics
from peel_gateway.model.exposure import ExposureFilter
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.precheck import MOST_PIECES
from peel_gateway.storage.store import Archive


def test_the_quarantine_is_bounded_oldest_first_and_counted(lab: Lab) -> None:
    lab.reopen(quarantine_limit=50)
    lab.send(lab.frames(1, [1], odds=(5, 1)))
    for batch in range(4):
        lab.send([b"junk %d %d" % (batch, i) for i in range(40)])
    counts = lab.store.counts()
    assert counts.quarantined == 51  # junk does not push out what exposes a device
    assert counts.dropped == {Verdict.MALFORMED: 110}
    assert counts.verdicts[Verdict.MALFORMED] == 160
    held = lab.store.exposures(ExposureFilter(blamed=False), limit=1000)
    assert held[-1].raw == b"junk 2 30" and held[0].raw == b"junk 3 39"
    assert recount(lab.store, lab).agrees


def test_one_topic_puts_a_bounded_number_of_pieces_into_quarantine_per_batch(lab: Lab) -> None:
    """All are counted; what another topic brings in the same batch is held."""
    junk, other = [b"junk %d" % i for i in range(3 * MOST_PIECES)], b"junk of another"
    messages = [*lab.messages(junk), replace(lab.messages([other])[0], topic="peel/v1/lab/2a/0000002a/report")]
    report = lab.engine.process(messages)
    assert (report.counts, report.dropped) == ({Verdict.MALFORMED: len(messages)}, 2 * MOST_PIECES)
    held = [each.raw for each in lab.store.exposures(limit=1000)]
    assert sorted(held) == sorted([*junk[:MOST_PIECES], other])
    again = lab.engine.process(messages)
    assert again.counts == {Verdict.REDELIVERED: MOST_PIECES + 1, Verdict.MALFORMED: 2 * MOST_PIECES}
    assert lab.store.counts().quarantined == MOST_PIECES + 1
    assert recount(lab.store, lab).agrees


def test_one_device_puts_a_bounded_number_of_exposures_into_quarantine_per_batch(lab: Lab) -> None:
    """Garbage in front of them hides none; the first is what exposed the device, and it stays."""
    junk, faulty = (
        [b"junk %d" % i for i in range(2 * MOST_PIECES)],
        lab.frames(1, range(1, 2 * MOST_PIECES), odds=(5, 1)),
    )
    report = lab.engine.process(lab.messages([*junk, *faulty]))
    assert [each.device for each in report.exposed_devices] == [1]
    blamed = lab.store.exposures(ExposureFilter(blamed=True), limit=1000)
    assert sorted(each.number for each in blamed) == list(range(1, MOST_PIECES + 1))
    assert recount(lab.store, lab).agrees


def test_a_replay_keeps_all_that_is_still_refused(lab: Lab) -> None:
    """More pieces of one topic than a batch from the network would put into quarantine."""
    for batch in range(3):
        lab.send([b"junk %d %d" % (batch, i) for i in range(MOST_PIECES)])
    replay(lab.store, lab.engine)
    assert lab.store.counts().quarantined == 3 * MOST_PIECES
    assert recount(lab.store, lab).agrees


def test_a_batch_may_hold_more_bytes_than_a_small_integer_counts(lab: Lab) -> None:
    """Sums and keys of any size fit into one statement: a burst of junk stalls nothing."""
    junk = [b"junk %d" % i + bytes(1000) for i in range(70)]
    assert lab.send(junk) == {"malformed": len(junk)}
    assert lab.store.counts().quarantined == len(junk)
    assert lab.send(lab.frames(1, [1])) == {"accepted": 1}
    assert recount(lab.store, lab).agrees


def test_no_device_pushes_out_what_exposed_another(lab: Lab) -> None:
    """One fault, one conviction by statistics; then two devices misbehave as often as they can."""
    lab.reopen(quarantine_limit=120)
    lab.send(lab.frames(1, [1], odds=(5, 1)))
    for number in range(1, 81, 10):
        lab.send([lab.sealed(2, n) for n in range(number, number + 10)])
    for start in range(1, 401, 40):
        lab.send([frame for device in (3, 4) for frame in lab.frames(device, range(start, start + 40), odds=(5, 1))])
    held = lab.store.exposures(limit=1000)
    assert [each.verdict for each in held if each.device == 1] == [Verdict.RULE]
    assert [each.verdict for each in held if each.device == 2] == [Verdict.STATISTICS]
    for device in (3, 4):
        assert min(each.number for each in held if each.device == device) == 1
        assert sum(each.device == device for each in held) <= 100
    counts = lab.store.counts()
    assert counts.quarantined == len(held) == 120
    assert counts.dropped == {Verdict.RULE: 801 - 119}
    assert counts.verdicts[Verdict.RULE] == 801
    assert recount(lab.store, lab).agrees


def test_what_must_stay_may_exceed_the_quarantine(lab: Lab) -> None:
    lab.reopen(quarantine_limit=2)
    lab.send([frame for device in (1, 2, 3, 4) for frame in lab.frames(device, [1, 2], odds=(5, 1))])
    assert sorted((each.device, each.number) for each in lab.store.exposures()) == [(1, 1), (2, 1), (3, 1), (4, 1)]
    assert lab.store.counts().dropped == {Verdict.RULE: 4}
    assert recount(lab.store, lab).agrees


def test_the_quarantine_is_bounded_in_bytes(lab: Lab) -> None:
    lab.reopen(quarantine_bytes=10_000)
    lab.send([bytes([i]) * 3000 for i in range(6)])
    assert lab.store.counts().quarantined_bytes <= 10_000
    assert lab.store.counts().quarantined == 3
    lab.send([b"x" * 20_000])
    assert lab.store.counts().quarantined == 0
    assert lab.store.counts().verdicts[Verdict.MALFORMED] == 7
    assert recount(lab.store, lab).agrees


def reports_total(store: Archive) -> dict[str, float]:
    """The counter that Prometheus reads, by verdict."""
    metrics = Metrics()
    metrics.watch_store(store)
    (family,) = (each for each in metrics.registry.collect() if each.name == "peel_reports")
    return {sample.labels["verdict"]: sample.value for sample in family.samples}


def test_replay_counts_a_forgotten_device_once(make_lab: MakeLab) -> None:
    lab = make_lab()
    lab.keyring = lab.keyring_of(lab.ids[1:])
    lab.engine.load(lab)
    frames = lab.frames(1, range(1, 21))
    assert lab.send([*frames, b"junk"]) == {"device": 20, "malformed": 1}
    counters = [reports_total(lab.store)]
    received = lab.now
    lab.now += 7200
    assert replay(lab.store, lab.engine).counts == {Verdict.DEVICE: 20, Verdict.MALFORMED: 1}
    counters.append(reports_total(lab.store))
    lab.keyring = lab.whole
    lab.engine.load(lab)
    report = replay(lab.store, lab.engine, ExposureFilter(verdicts=frozenset({Verdict.DEVICE})))
    assert (report.pieces, report.accepted) == (20, 20)
    assert replay(lab.store, lab.engine).counts == {Verdict.MALFORMED: 1}
    assert lab.send(frames) == {"redelivered": 20}
    tallies = lab.store.tallies(lab.profiles[0].id, bucket_seconds=300)
    assert set(tallies.bucket.tolist()) == {int(received) // 300 * 300}
    counters.append(reports_total(lab.store))
    for before, after in itertools.pairwise(counters):
        assert all(after[key] >= value for key, value in before.items()), "a counter fell"
    assert lab.store.counts().verdicts[Verdict.DEVICE] == 0
    assert lab.store.device_reports() == {1: {Verdict.ACCEPTED: 20}}
    assert recount(lab.store, lab).agrees


def test_replay_splits_the_rest_behind_an_unknown_profile(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](4), profiles[1](4), devices=2)
    lab.keyring = Keyring(lab.profiles[:1], [1], 1, [0], lab.keys_of(1, [1]))
    lab.engine.load(lab)
    payload = b"".join(lab.frames(1, [1]) + lab.frames(2, [1, 2]) + lab.frames(1, [2]))
    assert lab.send([payload]) == {"accepted": 1, "profile": 1}
    lab.keyring = lab.whole
    lab.engine.load(lab)
    assert replay(lab.store, lab.engine).counts == {Verdict.ACCEPTED: 3}
    assert recount(lab.store, lab).agrees


def test_replay_leaves_exposed_devices_alone(lab: Lab) -> None:
    lab.send(lab.frames(1, [1], odds=(5, 1)))
    assert replay(lab.store, lab.engine).pieces == 0
    with pytest.raises(ValueError, match="only quarantined"):
        replay(lab.store, lab.engine, ExposureFilter(verdicts=frozenset({Verdict.RULE})))
    assert len(lab.store.exposures()) == 1
