# SPDX-License-Identifier: MIT
"""Roll-ups: for every span they say what the log says, whatever has happened; and damage in them is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from databases import SqliteFile
from lab import START, Lab, MakeLab, Makers, harmony_profile

from peel_gateway.engine.pardon import pardon
from peel_gateway.engine.recount import recount
from peel_gateway.model.messages import Message
from peel_gateway.model.tables import LogTable, RollupTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import read_log
from peel_gateway.storage.sql import rollups, tallies, transaction
from peel_gateway.storage.sql.rollups import DAY, END, Extent
from peel_gateway.storage.store import StoreCorrupt

HOUR = 3600
SPANS: tuple[dict[str, Any], ...] = (
    {},
    {"bucket_seconds": 300},
    {"bucket_seconds": 1500},
    {"bucket_seconds": HOUR},
    {"bucket_seconds": 5 * HOUR},
    {"bucket_seconds": DAY},
    {"bucket_seconds": 4 * DAY},
    {"since": START + 1000},
    {"since": START + 7 * HOUR, "until": START + 3 * DAY + 1234},
    {"since": START + 2 * DAY, "bucket_seconds": 6 * HOUR},
    {"until": START + 20 * DAY, "bucket_seconds": 2 * DAY},
)

Ints = npt.NDArray[np.int64]


class History:
    """Every report that a lab has ever logged, and the sums that these make."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._parts: list[LogTable] = []
        self._seen = 0

    def note(self) -> None:
        """Remember what was logged since the last call."""
        log = read_log(self._lab.store)
        new = log.arrival > self._seen
        self._parts.append(LogTable(**{name: column[new] for name, column in vars(log).items()}))
        self._seen = max(self._seen, int(log.arrival.max(initial=0)))

    def tallies(
        self,
        profile: int,
        *,
        since: float | None = None,
        until: float | None = None,
        bucket_seconds: int | None = None,
        coarse: Callable[[Ints], Ints] = lambda bucket: bucket,
    ) -> dict[tuple[int, ...], tuple[int, int]]:
        """Sum reports one by one, by bucket, device, attribute and whether they do not count."""
        devices = self._lab.store.devices()
        withdrawn = set(devices.device[devices.withdrawn != 0].tolist())
        forfeited = dict(zip(devices.device.tolist(), devices.forfeited.tolist(), strict=True))
        whole = since is None and until is None and bucket_seconds is None
        sums: dict[tuple[int, ...], list[int]] = {}
        for log in self._parts:
            names = ("profile", "device", "index", "sign", "verdict", "arrival")
            rows = zip(*(getattr(log, name).tolist() for name in names), coarse(log.bucket).tolist(), strict=True)
            for of, device, index, sign, verdict, arrival, bucket in rows:
                inside = whole or (
                    bucket > 0 and (since is None or bucket >= since) and (until is None or bucket < until)
                )
                if of != profile or verdict != Verdict.ACCEPTED or not inside:
                    continue
                start = bucket // bucket_seconds * bucket_seconds if bucket_seconds else 0
                gone = int(device in withdrawn or arrival <= forfeited[device])
                sums.setdefault((start, device, index, gone), [0, 0])[sign < 0] += 1
        return {key: (plus, minus) for key, (plus, minus) in sums.items()}


def check(lab: Lab, history: History, **options: Any) -> None:
    """Compare all spans with the log, the tallies with the sums over devices, and recount."""
    history.note()
    for profile in lab.profiles:
        for span in SPANS:
            found = lab.store.device_tallies(profile.id, **span)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(tallies, "_MOST_PLACES", 0)  # sorts the rows instead of a table of all sums
                other = lab.store.device_tallies(profile.id, **span)
            assert all((getattr(other, name) == column).all() for name, column in vars(found).items())
            keys = (found.bucket, found.device, found.index, found.withdrawn)
            rows = zip(*(column.tolist() for column in (*keys, found.plus, found.minus)), strict=True)
            assert {row[:4]: row[4:] for row in rows} == history.tallies(profile.id, **span, **options), span
            table = lab.store.tallies(profile.id, **span)
            sums: dict[tuple[int, int], list[int]] = {}
            for bucket, _, index, gone, plus, minus in zip(
                *map(np.ndarray.tolist, (*keys, found.plus, found.minus)), strict=True
            ):
                row = sums.setdefault((bucket, index), [0, 0, 0, 0])
                for place, count in enumerate((plus, minus, plus * gone, minus * gone)):
                    row[place] += count
            stored = (table.plus, table.minus, table.withdrawn_plus, table.withdrawn_minus)
            rows = zip(
                table.bucket.tolist(), table.index.tolist(), *(column.tolist() for column in stored), strict=True
            )
            assert {row[:2]: list(row[2:]) for row in rows if any(row[2:])} == sums
    assert recount(lab.store, lab).differences == []


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make rolls, pieces and builds small, so that a short history has many of them."""
    monkeypatch.setattr(transaction, "_TAIL_EVENTS", 70)
    monkeypatch.setattr(rollups, "_CHUNK", 50)
    monkeypatch.setattr(rollups, "_AT_ONCE", 60)
    monkeypatch.setattr(rollups, "_STEP_ROWS", 100)
    monkeypatch.setattr(tallies, "_SUMS_AT_ONCE", 3000)
    yield


def report(lab: Lab, step: int) -> None:
    """Let every device report under new numbers, and some under old ones and late."""
    for device in lab.ids.tolist():
        lab.send(lab.frames(device, range(20 * step + 1, 20 * step + 3 + device)))
    if step > 2:
        late = lab.frames(2, [20 * (step - 2) + 18])
        lab.engine.process([Message("t", frame, lab.now) for frame in late])


@pytest.mark.usefixtures("small")
def test_whatever_happens_the_answers_are_the_logs(make_lab: MakeLab, profiles: Makers) -> None:
    """Exposure, pardons of both kinds, a second exposure, retention, days in place of buckets, restarts."""
    lab = make_lab(profiles[0](4), profiles[1](4), devices=5)
    history = History(lab)

    def forgive(device: int, *, restore: bool) -> None:
        history.note()
        pardon(lab.store, [device], restore=restore, reason="test", who="ada", clock=lab.clock)
        check(lab, history)

    for step in range(10):
        lab.now += 7 * HOUR
        report(lab, step)
        if step == 2:
            lab.send(lab.frames(3, [900], odds=(5, 1)))
            lab.send(lab.frames(4, [900], odds=(5, 1)))
        if step == 4:
            forgive(3, restore=False)
            forgive(4, restore=True)
        if step == 6:
            lab.send(lab.frames(3, [901], odds=(5, 1)))
            check(lab, history)
        if step == 7:
            forgive(3, restore=False)
            lab.reopen()
        assert lab.engine.prune(None) is not None
    check(lab, history)
    assert lab.engine.prune(DAY)
    check(lab, history)
    report(lab, 10)
    check(lab, history)
    lab.send(lab.frames(5, [950], odds=(5, 1)))
    check(lab, history)
    lab.engine.prune(DAY, 1.5 * DAY)
    fine_from = lab.database.execute("SELECT value FROM meta WHERE key = 'fine_from' AND value > 0")
    assert len(fine_from) == 1
    coarse = Extent(300, fine_from=fine_from[0][0]).kept
    check(lab, history, coarse=coarse)
    forgive_later = pardon(lab.store, [5], restore=True, reason="test", who="ada", clock=lab.clock)
    assert forgive_later[0].reports > 0
    check(lab, history, coarse=coarse)
    lab.reopen()
    report(lab, 11)
    check(lab, history, coarse=coarse)


@pytest.mark.usefixtures("small")
def test_days_outlive_the_log_and_a_copy_has_them_too(make_lab: MakeLab, tmp_path: Path) -> None:
    lab = make_lab(harmony_profile(), devices=4)
    history = History(lab)
    for step in range(40):
        lab.now += 12 * HOUR
        report(lab, step)
        lab.engine.prune(2 * DAY, 4 * DAY)
        history.note()
    fine_from = lab.database.execute("SELECT MAX(value) FROM meta WHERE key = 'fine_from'")[0][0]
    assert START + 14 * DAY < fine_from < lab.now - 3 * DAY
    check(lab, history, coarse=Extent(300, fine_from=fine_from).kept)
    copy = SqliteFile(tmp_path / "copy.sqlite").open()
    copy.fill(lab.store)
    for span in SPANS:
        one, other = (store.device_tallies(lab.profiles[0].id, **span) for store in (lab.store, copy))
        assert all((getattr(one, name) == column).all() for name, column in vars(other).items())
    assert recount(copy, lab).agrees
    copy.close()
    pieces = lab.database.execute("SELECT level, COUNT(*), MIN(first) FROM rollup WHERE level < 86400 GROUP BY level")
    assert {level for level, *_ in pieces} == {300, HOUR, 6 * HOUR}
    assert all(first >= fine_from for *_, first in pieces)


@pytest.mark.usefixtures("small")
def test_the_log_may_be_dropped_before_the_sums(make_lab: MakeLab) -> None:
    """`store.retention_days` below `store.fine_days`: every bucket answers as before, and a device exposed later leaves all of them."""
    lab = make_lab(harmony_profile(), devices=3)
    history = History(lab)
    for step in range(8):
        lab.now += 8 * HOUR
        report(lab, step)
        history.note()
    profile = lab.profiles[0].id
    before = lab.store.device_tallies(profile, bucket_seconds=300)
    assert lab.engine.prune(DAY, 6 * DAY)
    kept = read_log(lab.store)
    assert len(kept) > 0 and kept.received.min() >= (lab.now - 2 * DAY) * 1000
    after = lab.store.device_tallies(profile, bucket_seconds=300)
    assert all((getattr(before, name) == column).all() for name, column in vars(after).items())
    lab.send(lab.frames(2, [900], odds=(5, 1)))
    gone = lab.store.device_tallies(profile, bucket_seconds=300)
    assert (gone.withdrawn == (gone.device == 2)).all() and gone.bucket[gone.device == 2].min() < lab.now - 2 * DAY
    assert recount(lab.store, lab).agrees


@pytest.mark.usefixtures("small")
def test_wrong_sums_and_damaged_pieces_are_found(lab: Lab) -> None:
    for step in range(9):
        lab.now += 5 * HOUR
        report(lab, step)
    lab.engine.prune(None)
    assert recount(lab.store, lab).agrees
    for level in (300, HOUR, DAY):
        (identity, data), *_ = lab.database.execute(f"SELECT id, data FROM rollup WHERE level = {level} ORDER BY id")
        with lab.store.begin() as open_:
            open_._connection.delete("rollup", "id = ?", (identity,))  # type: ignore[attr-defined]
        assert any("rollup" in each.table for each in recount(lab.store, lab).differences)
    damaged = bytes(data)[:-5] + bytes([data[-5] ^ 1]) + bytes(data)[-4:]
    ((identity,), *_) = lab.database.execute("SELECT id FROM rollup ORDER BY id DESC")
    with lab.store.begin() as open_:
        open_._connection.update("rollup", "data = ?", "id = ?", (damaged, identity))  # type: ignore[attr-defined]
    with pytest.raises(StoreCorrupt, match=f"roll-ups, piece {identity}"):
        lab.store.check()


@pytest.mark.quick
@pytest.mark.parametrize("bucket", [1, 7, 300, 1800, HOUR, 5000, DAY])
def test_levels_nest_and_a_cover_has_each_bucket_once(bucket: int, rng: np.random.Generator) -> None:
    levels = Extent(bucket).levels
    assert all(larger % smaller == 0 and larger > smaller for smaller, larger in pairwise(levels))
    buckets = np.arange(0, 300 * DAY, bucket * max(1, 40_000 // bucket))
    for _ in range(50):
        day = Extent(bucket).day
        built = int(rng.integers(0, 290 * DAY))
        extent = Extent(bucket, built=built, fine_from=int(rng.integers(0, built // day + 1)) * day)
        begin, end = sorted(rng.integers(0, 300 * DAY, 2).tolist())
        group = None if rng.integers(2) else bucket * int(rng.integers(1, 3000))
        spans = list(extent.cover(begin, end, group))
        start = extent.kept(buckets)
        inside = (start >= begin) & (start < end)
        covered = np.zeros(len(buckets), np.int64)
        for level, first, last in spans:
            unit = start // level * level
            covered += (unit >= first) & (unit < last)
            assert level in (bucket, day) or last <= extent.complete(level)
            assert group is None or group % level == 0 or (level == day and last <= extent.fine_from)
        assert (covered == inside).all()


@pytest.mark.quick
def test_a_piece_comes_back_as_it_was(rng: np.random.Generator) -> None:
    for most in (1, 300, 2**31):
        count = 500
        table = RollupTable(
            np.full(count, 7),
            np.sort(rng.integers(0, 5, count)) * 300,
            rng.integers(1, 2**32, count),
            rng.integers(0, most, count),
            rng.integers(0, 2, count),
            rng.integers(0, most, count),
            rng.integers(0, 70_000, count),
        )
        order = np.lexsort((table.forfeits, table.index, table.device, table.start))
        table = RollupTable(**{name: column[order] for name, column in vars(table).items()})
        found = rollups._unpacked(7, count, rollups._packed(table))
        assert all((getattr(found, name) == column).all() for name, column in vars(table).items())
    assert int(table.device.max()) < END
