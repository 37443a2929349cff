# SPDX-License-Identifier: MIT
"""The engine: one verdict per report, the right one, and nobody blamed without proof."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest
from lab import Lab, MakeLab, Makers

from peel_core import Keyring, index_many
from peel_core.frame import DEVICE, NUMBER, PROFILE
from peel_gateway.engine.recount import recount
from peel_gateway.model.exposure import ExposureFilter
from peel_gateway.model.verdict import Verdict


def state(lab: Lab, device: int) -> dict[str, Any]:
    """A device's row in the store; empty where it has none."""
    table = lab.store.devices()
    rows = np.flatnonzero(table.device == device)
    return {name: getattr(table, name)[rows[0]] for name in vars(table)} if len(rows) else {}


def agrees(lab: Lab) -> bool:
    return recount(lab.store, lab).agrees


def test_honest_reports_are_accepted_and_tallied(lab: Lab) -> None:
    assert lab.send(lab.frames(1, range(1, 101)) + lab.frames(2, range(1, 51))) == {"accepted": 150}
    tallies = lab.store.tallies(lab.profiles[0].id)
    assert int((tallies.plus + tallies.minus).sum()) == 150
    assert agrees(lab)


def test_nothing_at_all_is_fine(lab: Lab) -> None:
    assert lab.send([]) == {}
    assert lab.send([b""]) == {"malformed": 1}


def test_several_frames_in_one_payload(lab: Lab) -> None:
    frames = lab.frames(1, range(1, 6))
    assert lab.send([b"".join(frames) + frames[0][:20]]) == {"accepted": 5, "malformed": 1}


def test_a_fleet_without_devices_refuses_everything(lab: Lab) -> None:
    frames = lab.frames(1, [1])
    nobody = lab.keys_of(1, [])
    for profiles, verdict in (((), "profile"), (lab.profiles, "device")):
        lab.keyring = Keyring(profiles, [], 1, [], nobody)
        lab.engine.load(lab)
        assert lab.send([*frames, b"junk about " + verdict.encode()]) == {verdict: 1, "malformed": 1}


@pytest.mark.parametrize("length", [0, 1, 15, 16, 19, 37, 38, 39, 76, 500])
def test_garbage_of_any_length_is_quarantined_and_blames_nobody(lab: Lab, length: int) -> None:
    rng = np.random.default_rng(length)
    counts = lab.send([rng.bytes(length) for _ in range(20)])
    assert sum(counts.values()) == 20
    assert set(counts) <= {"malformed", "profile", "redelivered"}
    assert len(lab.store.devices()) == 0
    assert agrees(lab)


def test_a_redelivery_counts_once_across_batches_and_restarts(lab: Lab) -> None:
    frames = lab.frames(1, range(1, 21))
    assert lab.send(frames + frames[:5]) == {"accepted": 20, "redelivered": 5}
    assert lab.send(frames) == {"redelivered": 20}
    lab.reopen()
    assert lab.send(frames) == {"redelivered": 20}
    assert len(lab.store.exposures()) == 0
    assert agrees(lab)


def test_numbers_may_arrive_in_any_order(lab: Lab) -> None:
    frames = lab.frames(1, range(1, 201))
    order = np.random.default_rng(5).permutation(200)
    for start in range(0, 200, 20):
        assert lab.send([frames[i] for i in order[start : start + 20]]) == {"accepted": 20}
    assert agrees(lab)


def test_another_body_under_a_used_number_exposes_the_device(lab: Lab) -> None:
    first, second = lab.sealed(1, 7, minus=0), lab.sealed(1, 7, minus=1)
    assert lab.send([first]) == {"accepted": 1}
    assert lab.send([second]) == {"reused": 1}
    assert lab.send([second, first]) == {"redelivered": 2}
    assert state(lab, 1)["cause"] == Verdict.REUSED
    assert lab.store.counts().withdrawn_past == 1
    assert agrees(lab)


def test_two_bodies_under_one_number_in_one_batch(lab: Lab) -> None:
    counts = lab.send([lab.sealed(1, 7, minus=0), lab.sealed(1, 7, minus=1)])
    assert counts == {"withdrawn": 1, "reused": 1}


def test_tampering_is_seen_and_never_held_against_the_device(lab: Lab) -> None:
    frame = lab.frames(1, [6])[0]
    altered = [frame[:i] + bytes([frame[i] ^ 1]) + frame[i + 1 :] for i in range(NUMBER.start, len(frame))]
    counts = lab.send(altered)
    assert counts == {"seal": len(altered)}
    assert state(lab, 1) == {}
    assert lab.send([frame]) == {"accepted": 1}
    assert state(lab, 1)["cause"] == 0


def test_strangers_and_wrong_profiles(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](4), profiles[0](4, name="other"), devices=4)
    frame = lab.frames(1, [1])[0]
    stranger = DEVICE.put(frame, 999)
    crossed = DEVICE.put(frame, 2)
    nowhere = PROFILE.put(frame, 0x04030201)
    assert lab.send([stranger]) == {"device": 1}
    assert lab.send([crossed]) == {"profile": 1}
    assert lab.send([nowhere]) == {"profile": 1}
    assert len(lab.store.devices()) == 0


def test_revocation_by_reload(lab: Lab) -> None:
    assert lab.send(lab.frames(1, [1])) == {"accepted": 1}
    lab.revoked = frozenset({1})
    lab.engine.load(lab)
    assert lab.send(lab.frames(1, [2])) == {"revoked": 1}
    lab.revoked = frozenset()
    lab.engine.load(lab)
    assert lab.send(lab.frames(1, [3])) == {"accepted": 1}


def test_unsealed_reports_need_permission_and_are_no_way_round_a_seal(lab: Lab) -> None:
    unsealed = lab.frames(1, [1], flags=1)
    assert lab.send(unsealed) == {"unsealed": 1}
    lab.engine = lab.make_engine(accept_unsealed=True)
    assert lab.send(unsealed) == {"accepted": 1}
    assert lab.send(unsealed) == {"redelivered": 1}
    assert lab.send(lab.frames(1, [2])) == {"accepted": 1}
    assert lab.send(lab.frames(1, [3], flags=1)) == {"unsealed": 1}
    assert lab.send(lab.frames(2, [1]) + lab.frames(2, [2], flags=1)) == {"accepted": 1, "unsealed": 1}


def test_another_budget_is_a_rule_fault(lab: Lab) -> None:
    assert lab.send(lab.frames(1, [1], odds=(9, 3))) == {"rule": 1}
    (exposure,) = lab.store.exposures()
    assert exposure.evidence["rule"] == exposure.evidence["rule_expected"] + 1
    assert exposure.raw and exposure.device == 1 and exposure.blamed


def test_a_chosen_attribute_is_a_support_fault(lab: Lab) -> None:
    assigned = int(index_many(lab.profiles[0], [1], lab.keys_of(1, [5]), [5])[0])
    assert lab.send([lab.sealed(1, 5, (assigned + 1) % 4)]) == {"support": 1}
    evidence = lab.store.exposures()[0].evidence
    assert (evidence["expected"], evidence["reconstructed"]) == (assigned, (assigned + 1) % 4)
    assert lab.send([lab.sealed(2, 5, 40)]) == {"support": 1}  # a column of the projection that is no attribute


def test_anything_but_a_codeword_is_a_structure_fault(lab: Lab) -> None:
    rng = np.random.default_rng(1)
    noise = bytes(rng.integers(0, 243, 9, dtype=np.uint8)) + bytes([4])
    assert lab.send([lab.sealed(1, 5, trits=noise)]) == {"structure": 1}
    assert lab.store.exposures()[0].evidence["residual"] > 0.01
    assert lab.send([lab.sealed(2, 5, trits=b"\xff" * 10)]) == {"structure": 1}
    assert lab.send([lab.sealed(2, 5, trits=b"\xff" * 10)]) == {"redelivered": 1}
    assert agrees(lab)


def test_a_faulty_report_withdraws_its_device_in_the_same_transaction(lab: Lab) -> None:
    lab.send(lab.frames(1, range(1, 31)) + lab.frames(2, range(1, 31)))
    assert lab.send(lab.frames(1, [40], odds=(5, 1)) + lab.frames(1, [41])) == {"rule": 1, "withdrawn": 1}
    assert lab.send(lab.frames(1, [42])) == {"withdrawn": 1}
    (whole,) = lab.estimates()
    assert (whole.n, whole.withdrawn) == (30, 30)
    assert agrees(lab)


def test_faults_only_mark_the_device_when_told_so(lab: Lab) -> None:
    lab.engine = lab.make_engine(withdraw_faulty=False)
    assert lab.send(lab.frames(1, [1, 2])) == {"accepted": 2}
    assert lab.send(lab.frames(1, [3], odds=(5, 1)) + lab.frames(1, [4])) == {"rule": 1, "accepted": 1}
    assert state(lab, 1)["cause"] == Verdict.RULE and state(lab, 1)["withdrawn"] == 0
    assert lab.store.counts().withdrawn_past == 0
    assert agrees(lab)


def test_krr_reports_and_their_faults(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[1](4))
    assert lab.send(lab.frames(1, range(1, 101), reading=2)) == {"accepted": 100}
    assert lab.send([lab.sealed(2, 1, 2, minus=1)]) == {"support": 1}
    assert lab.send([lab.sealed(3, 1, 30)]) == {"support": 1}
    assert agrees(lab)


def test_identical_junk_is_one_exposure(lab: Lab) -> None:
    assert lab.send([b"junk", b"junk"]) == {"malformed": 1, "redelivered": 1}
    assert lab.send([b"junk"]) == {"redelivered": 1}
    assert len(lab.store.exposures()) == 1


def test_state_survives_a_restart_exactly(lab: Lab) -> None:
    rng = np.random.default_rng(3)
    frames = [frame for device in (1, 2, 3) for frame in lab.frames(device, range(1, 200), reading=0.5)]
    order = rng.permutation(len(frames))
    for start in range(0, len(order), 50):
        lab.send([frames[i] for i in order[start : start + 50]])
        if rng.random() < 0.5:
            lab.reopen()
    assert lab.store.counts().verdicts[Verdict.ACCEPTED] == len(frames)
    assert agrees(lab)


def test_two_engines_on_one_file_do_not_overwrite_each_other(lab: Lab) -> None:
    other = lab.make_engine()
    frames = lab.frames(1, range(1, 101))
    for start in range(0, 100, 10):
        engine = (lab.engine, other)[start // 10 % 2]
        engine.process(lab.messages(frames[start : start + 10] + frames[max(0, start - 10) : start]))
    assert lab.store.counts().verdicts[Verdict.ACCEPTED] == 100
    assert agrees(lab)


def test_a_device_may_change_its_profile_and_come_back(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](4), profiles[1](3), devices=2)
    assert lab.send(lab.frames(1, range(1, 101)) + lab.frames(2, range(1, 41))) == {"accepted": 140}
    for number, profile in ((101, 1), (201, 0), (301, 1)):
        lab.provision(1, number, profile)
        assert lab.send(lab.frames(1, range(number + 20, number + 100), reading=1)) == {"accepted": 80}
    assert lab.store.counts().gaps > 0
    assert agrees(lab)


def test_a_device_that_leaves_and_returns_is_remembered(lab: Lab) -> None:
    frames = lab.frames(1, range(1, 21))
    lab.send(frames)
    lab.keyring = lab.keyring_of(lab.ids[1:])
    lab.engine.load(lab)
    assert lab.send(frames) == {"device": 20}
    lab.keyring = lab.whole
    lab.engine.load(lab)
    # One of the two is what the device sent, the other is not.
    sent = [*frames, lab.sealed(1, 3, minus=0), lab.sealed(1, 3, minus=1)]
    assert lab.send(sent) == {"redelivered": 21, "reused": 1}
    assert agrees(lab)


@pytest.mark.slow
def test_unknown_devices_leave_no_state_and_take_no_memory(lab: Lab) -> None:
    """Once the quarantine is full, as many new ids again take nothing; an id would be 8 bytes at least."""
    count = 2000
    lab.reopen(quarantine_limit=100)
    frame = lab.frames(1, [1])[0]

    def flood(first: int) -> int:
        """Send frames of so many ids; return the memory that is in use afterwards."""
        assert lab.send([DEVICE.put(frame, first + i) for i in range(count)]) == {"device": count}
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        _, before, after = (flood(first) for first in (10_000, 20_000, 30_000))
    finally:
        tracemalloc.stop()
    assert after - before < 8 * count
    assert len(lab.store.devices()) == 0
    assert lab.cache.row_cache.taken == 0


def test_exposures_can_be_filtered(lab: Lab) -> None:
    lab.send([b"junk", *lab.frames(1, [1], odds=(5, 1))])
    lab.now += 100
    lab.send([b"more junk"])
    listed = lab.store.exposures
    assert [each.verdict for each in listed(ExposureFilter(device=1))] == [Verdict.RULE]
    assert len(listed(ExposureFilter(verdicts=frozenset({Verdict.MALFORMED})))) == 2
    assert len(listed(ExposureFilter(since=lab.now - 1))) == 1
    assert len(listed(ExposureFilter(blamed=False, until=lab.now - 1))) == 1
