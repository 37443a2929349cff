# SPDX-License-Identifier: MIT
"""Local hashing in the gateway: from frames to shares of many categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lab import MakeLab, chances_of, hashing_profile, krr_profile

from peel_core import index_many
from peel_core.hashing import hashed
from peel_gateway.engine.recount import recount
from peel_gateway.estimation.estimate import Choice, Estimate, estimates
from peel_gateway.estimation.statistics import Reports, equal_devices, equal_reports
from peel_gateway.model.tables import DeviceTallyTable
from peel_gateway.storage.records import read_log


def said(profile: Any, values: Any, rng: np.random.Generator) -> Any:
    """The cells of one report for each value: a random hash, and kRR over its symbols."""
    hashes = rng.integers(0, profile.units, len(values))
    keep = rng.random(len(values)) < profile.blocks[0].true_share
    symbols = np.where(
        keep, hashed(hashes, values, profile.k, profile.blocks[0].domain), rng.integers(0, profile.k, len(values))
    )
    return profile.cell(hashes, symbols)


def reports(profile: Any, cells: Any, device: Any = 1) -> Reports:
    one = np.ones(len(cells), np.int64)
    return Reports.of(profile, one * device, cells, one, 0 * one)


def tallies(cells: Any, device: Any) -> DeviceTallyTable:
    """One report in each cell."""
    one = np.ones(len(cells), np.int64)
    return DeviceTallyTable(0 * one, one * device, cells, one, 0 * one, 0 * one)


def test_values_are_what_the_formula_says() -> None:
    """f_v = (C_v/N - 1/g) / (p - 1/g), with C_v counted report by report."""
    rng = np.random.default_rng(1)
    profile = hashing_profile(50, epsilon=2.0)
    cells = said(profile, rng.integers(0, 50, 400), rng)
    g, keep = profile.k, profile.blocks[0].true_share
    counts = [np.sum(hashed(cells // g, v, g, 50) == cells % g) for v in range(50)]
    p = keep + (1 - keep) / g
    assert chances_of(profile) == pytest.approx((1 / g, p))
    found = reports(profile, cells).statistics(np.ones(1))
    assert found.unclipped.value == pytest.approx((np.array(counts) / 400 - 1 / g) / (p - 1 / g), abs=1e-9)
    assert found.influence == pytest.approx(np.full(50, 1 / (p - 1 / g)))


@pytest.mark.slow
@pytest.mark.parametrize(("domain", "epsilon"), [(10, 0.3), (64, 1.0), (300, 3.0)])
def test_shares_are_unbiased_and_their_intervals_cover(domain: int, epsilon: float) -> None:
    """Shares of 0.6, 0.3, 0.1, and 0 for all others, of which the last one is looked at: over reports, and over devices that differ."""
    rng = np.random.default_rng(2)
    profile = hashing_profile(domain, epsilon=epsilon)
    device = np.repeat(np.arange(10), [1, 2, 5, 20, 50, 60, 70, 80, 90, 222])
    values = rng.permutation(np.repeat([0, 1, 2], [360, 180, 60]))
    own = np.array([np.bincount(values[device == each], minlength=3) / np.sum(device == each) for each in range(10)])
    truths = np.array([[0.6, 0.3, 0.1, 0], [*own.mean(axis=0), 0]])
    errors, covered = [], []
    for _ in range(600):
        held = reports(profile, said(profile, values, rng), device)
        for truth, weigh in zip(truths, (equal_reports, equal_devices), strict=True):
            found = held.statistics(weigh(held.report_counts))
            asked = [0, 1, 2, -1]
            errors.append(found.unclipped.value[asked] - truth)
            covered.append((found.bounds.low[asked] <= truth) & (truth <= found.bounds.high[asked]))
    for way in range(2):
        mine = np.array(errors)[way::2]
        assert (np.abs(mine.mean(axis=0)) < 4 * mine.std(axis=0) / np.sqrt(len(mine))).all()
        assert (np.mean(covered[way::2], axis=0) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / len(mine))).all()


def test_from_frames_to_shares(make_lab: MakeLab) -> None:
    """Devices of two categorical profiles; each report in the cell of its hash; recount, retention and withdrawal follow."""
    lab = make_lab(hashing_profile(1000), krr_profile(), devices=6)
    profile = lab.profiles[0]
    for device, word in ((1, 7), (3, 7), (5, 999)):
        assert lab.send(lab.frames(device, range(1, 601), reading=word)) == {"accepted": 600}
    lab.send(lab.frames(2, range(1, 101), reading=3))
    log = read_log(lab.store, 1)
    assert (log.index // profile.k == _assigned(lab, 1, log.number)).all()
    (whole,) = lab.estimates()
    assert (whole.n, whole.figures, len(whole.estimates)) == (1800, 1000, 100)
    assert {row.name for row in whole.estimates[:2]} == {"7", "999"}
    values = {row.name: row.published for row in whole.estimates}
    for name, truth in (("7", 2 / 3), ("999", 1 / 3)):
        interval = values[name].within
        assert interval.low is not None and interval.high is not None
        assert interval.low - 0.1 < truth < interval.high + 0.1
    lab.now += 86400
    assert lab.prune(lab.now) == 1900
    lab.send(lab.frames(5, [601], odds=(7, 1)))
    (after,) = lab.estimates()
    assert (after.n, after.withdrawn) == (1200, 600)
    assert _value(after.estimates, "7") > _value(whole.estimates, "7")
    assert recount(lab.store, lab).agrees
    lab.reopen()
    assert lab.send(lab.frames(1, [601], reading=7)) == {"accepted": 1}


def _assigned(lab: Any, device: int, numbers: Any) -> Any:
    return index_many(lab.profiles[0], np.full(len(numbers), device), lab.keys_of(device, numbers), numbers)


def _value(rows: tuple[Estimate, ...], name: str) -> float:
    (value,) = (row.published.unclipped.value for row in rows if row.name == name)
    assert value is not None
    return value


def test_which_categories_are_listed() -> None:
    rng = np.random.default_rng(3)
    profile = hashing_profile(1000)
    table = tallies(said(profile, rng.integers(0, 40, 3000), rng), rng.integers(1, 9, 3000))
    (everything,) = estimates(profile, table, choice=Choice(top=1000))
    assert [row.name for row in everything.estimates] == [str(i) for i in range(1000)]
    (most,) = estimates(profile, table, choice=Choice(top=3))
    best = sorted(everything.estimates, key=lambda row: -(row.published.unclipped.value or 0))[:3]
    assert most.estimates == tuple(best)
    (one,) = estimates(profile, table, choice=Choice(name="17"))
    assert one.estimates == (everything.estimates[17],)
    assert Choice(name="1000").named(profile) == []


def test_the_largest_domain_is_estimated() -> None:
    """65,535 categories, 20,000 reports of four devices, all at once."""
    rng = np.random.default_rng(4)
    profile = hashing_profile(65_535)
    values = np.where(rng.random(20_000) < 0.5, 65_534, rng.integers(0, 65_535, 20_000))
    (found,) = estimates(profile, tallies(said(profile, values, rng), rng.integers(1, 5, 20_000)))
    first, second, *_ = found.estimates
    assert first.name == "65534"
    assert first.published.within.value == pytest.approx(0.5, abs=0.08)
    assert first.over_devices is not None and first.over_devices.within.value == pytest.approx(0.5, abs=0.1)
    assert second.published.within.value is not None and second.published.within.value < 0.2
    assert len(found.estimates) == 100
