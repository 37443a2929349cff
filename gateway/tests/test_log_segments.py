# SPDX-License-Identifier: MIT
"""The log's segments: appended, sealed, cut and read again; checkpoints of bets; damage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab import Lab, MakeLab, Makers, harmony_profile

from peel_gateway.engine.recount import recount
from peel_gateway.model.tables import GapTable, LogTable
from peel_gateway.screening import state_cache
from peel_gateway.screening.state_cache import StateCache
from peel_gateway.storage.records import add_checksum, as_tables, pack, read_log, records_of, seal, unpack
from peel_gateway.storage.sql import log as sql_log
from peel_gateway.storage.store import StoreCorrupt


def segments(lab: Lab) -> list[tuple[int, int, int]]:
    """Last event, number of events and whether it is sealed, of each."""
    rows: list[tuple[int, int, int]] = lab.database.execute("SELECT last, events, sealed FROM log ORDER BY last")
    return rows


@st.composite
def events(draw: Any) -> tuple[LogTable, GapTable]:
    """Any events, those of reports and gaps in any order of arrival."""
    reports, gaps = draw(st.integers(0, 8)), draw(st.integers(0, 4))
    arrival = 7 + np.array(draw(st.permutations(range(reports + gaps))), np.int64)

    def column(low: int, high: int, count: int) -> Any:
        return np.array(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)), np.int64)

    log = LogTable(
        device=column(1, 2**32 - 1, reports),
        number=column(1, 2**48 - 1, reports),
        profile=column(0, 2**32 - 1, reports),
        received=column(0, 2**42, reports),
        verdict=column(0, 21, reports),
        index=column(-1, 2**20, reports),
        sign=2 * column(0, 1, reports) - 1,
        cohort=column(-1, 1, reports),
        late=column(0, 1, reports),
        body=column(-(2**31), 2**31 - 1, reports),
        bucket=column(0, 2**32 - 1, reports),
        opened=column(0, 1, reports),
        arrival=arrival[:reports],
    )
    missing = GapTable(
        device=column(1, 2**32 - 1, gaps),
        number=column(1, 2**48 - 1, gaps),
        profile=column(0, 2**32 - 1, gaps),
        index=column(0, 2**20, gaps),
        arrival=arrival[reports:],
    )
    return log, missing


@given(events())
def test_events_come_back_as_they_were(tables: tuple[LogTable, GapTable]) -> None:
    """Packed and sealed, whatever their values."""
    records = records_of(*tables)
    for data, sealed in ((pack(records), False), (seal(records), True)):
        again = as_tables(unpack(data, sealed=sealed), 6 + len(records))
        table: Any
        for table, other in zip(tables, again, strict=True):
            order = np.argsort(table.arrival)
            for name in vars(table):
                assert getattr(table, name)[order].tolist() == getattr(other, name).tolist(), name


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, make_lab: MakeLab) -> Lab:
    """A gateway that seals after a hundred events, and has checkpoints and bodies of the last hundred."""
    monkeypatch.setattr(sql_log, "_SEALED_EVENTS", 100)
    monkeypatch.setattr(state_cache, "TAIL", 100)
    monkeypatch.setattr(state_cache, "WINDOW", 100)
    return make_lab()


def work(lab: Lab, start: int, stop: int) -> None:
    """Two devices, one of which loses every seventh report."""
    for number in range(start, stop, 10):
        numbers = range(number, number + 10)
        assert set(lab.send(lab.frames(1, [n for n in numbers if n % 7]) + lab.frames(2, numbers))) == {"accepted"}


def test_batches_are_sealed_together_and_nothing_changes(small: Lab) -> None:
    lab = small
    work(lab, 1, 201)
    found = segments(lab)
    assert [sealed for _, _, sealed in found][:3] == [1, 1, 1] and all(
        events >= 100 for _, events, sealed in found if sealed
    )
    log = read_log(lab.store, 2)
    assert log.number.tolist() == list(range(1, 201)) and (np.diff(log.arrival) > 0).all()
    lab.reopen()
    work(lab, 201, 251)
    assert recount(lab.store, lab).agrees
    assert lab.send(lab.frames(2, [251], odds=(5, 1))) == {"rule": 1}  # withdraws what is sealed, too
    assert lab.store.counts().withdrawn_past == 250
    assert recount(lab.store, lab).agrees


@pytest.mark.slow
@pytest.mark.parametrize("keep", [37, 120, 333])
def test_the_log_is_cut_within_a_segment(small: Lab, keep: int) -> None:
    lab = small
    for number in range(1, 201):
        lab.now += 10
        lab.send(lab.frames(1, [number]) + lab.frames(2, [number]))
    before = lab.estimates()
    assert lab.prune(lab.now - 5 * keep) == 400 - 2 * (keep // 2 + 1)
    assert lab.estimates() == before
    assert recount(lab.store, lab).agrees
    lab.reopen()
    work(lab, 201, 301)
    assert recount(lab.store, lab).agrees


def test_a_restart_plays_no_more_than_the_tail(small: Lab) -> None:
    """Checkpoints are stored when enough has come; a restart reads what came after them, and knows the same."""
    lab = small
    work(lab, 1, 401)
    known = lab.known()
    lab.reopen()
    with lab.store.begin() as transaction:
        log, gaps = transaction.events(StateCache.tail_begins(transaction.arrival, transaction.checkpointed))
    lab.send([])
    assert len(log) + len(gaps) <= 120 < lab.cache.arrival
    assert lab.known() == known
    work(lab, 401, 501)
    assert recount(lab.store, lab).agrees


def test_checkpoints_take_little_room_while_little_is_known(small: Lab, make_lab: MakeLab) -> None:
    lab = make_lab(harmony_profile(k=48))
    work(lab, 1, 101)
    sizes = [size for (size,) in lab.database.execute("SELECT LENGTH(state) FROM test_state WHERE arrival > 1")]
    assert 0 < max(sizes) < lab.cache.device_tests[0].e_process.state_bytes * 4 / 5
    lab.reopen()
    assert recount(lab.store, lab).agrees


def flipped(data: bytes, place: int) -> bytes:
    """Some bytes with one bit of them turned over."""
    return (int.from_bytes(data, "little") ^ 1 << place).to_bytes(len(data), "little")


def test_a_damaged_checkpoint_is_said_plainly(small: Lab) -> None:
    lab = small
    work(lab, 1, 101)
    lab.database.execute("UPDATE test_state SET state = substr(state, 2) WHERE device = 2")
    lab.reopen()
    for question in (lab.store.check, lambda: work(lab, 101, 111), lambda: recount(lab.store, lab)):
        with pytest.raises(
            StoreCorrupt, match=r"test state of device 00000002: .* checksum do not agree; restore a copy"
        ):
            question()


def test_a_checkpoint_of_something_else_is_said_plainly(small: Lab) -> None:
    lab = small
    work(lab, 1, 101)
    lab.database.execute("UPDATE test_state SET state = ? WHERE device = 2", (add_checksum(b"\xff"),))
    lab.reopen()
    for question in (lambda: work(lab, 101, 111), lambda: recount(lab.store, lab)):
        with pytest.raises(
            StoreCorrupt, match=r"damaged: a packed state of 1 bytes does not unpack to .* restore a copy"
        ):
            question()


def test_one_flipped_bit_of_a_checkpoint_is_no_other_state(small: Lab, rng: np.random.Generator) -> None:
    """A bit of a count is as good a count: nothing but the checksum knows."""
    lab = small
    work(lab, 1, 101)
    ((good,),) = lab.database.execute("SELECT state FROM test_state WHERE device = 2")
    for place in rng.permutation(8 * len(good))[:40].tolist():
        lab.database.execute("UPDATE test_state SET state = ? WHERE device = 2", (flipped(good, place),))
        with pytest.raises(StoreCorrupt, match="test state of device 00000002"):
            lab.store.check()
    lab.database.execute("UPDATE test_state SET state = ? WHERE device = 2", (good,))
    lab.store.check()


def test_a_device_that_leaves_and_comes_back_is_judged_by_all_it_did(small: Lab) -> None:
    """Events since the last checkpoint are played and stored, although the device is no longer registered."""
    lab = small
    work(lab, 1, 41)
    lab.keyring = lab.keyring_of(lab.ids[1:])
    lab.engine.load(lab)
    for number in range(41, 301, 10):
        lab.send(lab.frames(2, range(number, number + 10)))
    lab.keyring = lab.whole
    lab.engine.load(lab)
    work(lab, 301, 401)
    assert recount(lab.store, lab).agrees


def test_a_profile_that_leaves_and_comes_back_holds_the_checkpoints_up(
    small: Lab, make_lab: MakeLab, profiles: Makers
) -> None:
    """Events of a missing profile are played when the profile is back, however many came meanwhile."""
    del small
    lab = make_lab(profiles[0](4), profiles[1](4), devices=2)
    lab.send(lab.frames(1, range(1, 41)))
    for number in range(1, 31, 10):
        lab.send(lab.frames(2, range(number, number + 10), reading=1))
    whole = lab.profiles
    lab.keyring = type(lab.keyring)(whole[:1], [1], 1, [0], lab.keys_of(1, [1]))
    lab.engine.load(lab)
    for number in range(41, 341, 10):
        lab.send(lab.frames(1, range(number, number + 10)))
    lab.keyring = lab.whole
    lab.engine.load(lab)
    for number in range(31, 131, 10):
        lab.send(
            lab.frames(2, range(number, number + 10), reading=1) + lab.frames(1, range(310 + number, 320 + number))
        )
    assert recount(lab.store, lab).agrees


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (
            "UPDATE log SET data = substr(data, 1, LENGTH(data) - 1) WHERE last = (SELECT MIN(last) FROM log)",
            "events up to",
        ),
        (
            "UPDATE log SET data = substr(data, 1, LENGTH(data) - 1) WHERE last = (SELECT MAX(last) FROM log)",
            "events up to",
        ),
        ("UPDATE log SET events = events + 1 WHERE last = (SELECT MIN(last) FROM log)", "instead of"),
        ("DELETE FROM log WHERE last = (SELECT MAX(last) FROM log)", "missing"),
    ],
)
def test_broken_segments_are_told(small: Lab, damage: str, told: str) -> None:
    work(small, 1, 101)
    work(small, 101, 111)
    small.database.execute(damage)
    with pytest.raises(StoreCorrupt, match=told):
        small.store.check()


def test_a_damaged_segment_is_told(small: Lab) -> None:
    work(small, 1, 101)
    ((last, data),) = small.database.execute("SELECT last, data FROM log ORDER BY last LIMIT 1")
    damaged = data[:40] + b"\xff\x00\xff" + data[43:]
    small.database.execute("UPDATE log SET data = ? WHERE last = ?", (damaged, last))
    with pytest.raises(StoreCorrupt, match="events up to"):
        small.store.check()


def test_one_flipped_bit_of_a_batch_is_told(small: Lab, rng: np.random.Generator) -> None:
    """Of one that is not sealed yet: its bytes are numbers, and every bit of them is some number."""
    work(small, 1, 101)
    work(small, 101, 104)
    ((last, data),) = small.database.execute("SELECT last, data FROM log WHERE sealed = 0 ORDER BY last DESC LIMIT 1")
    for place in rng.permutation(8 * len(data))[:40].tolist():
        small.database.execute("UPDATE log SET data = ? WHERE last = ?", (flipped(data, place), last))
        with pytest.raises(StoreCorrupt, match=f"events up to {last}"):
            small.store.check()
        with pytest.raises(StoreCorrupt, match=f"events up to {last}"):
            recount(small.store, small)
