# SPDX-License-Identifier: MIT
"""Other defences do what their papers say of them: figures of their tables where such were printed, what they prove elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from lab_reports import krr, oue, targeted_krr, targeted_oue, zipf

from peel_research.lab.rivals import RIVALS, Collected, Frequencies, Knowledge, Numbers
from peel_research.lab.rivals.base import Bools, Rival
from peel_research.lab.rivals.detect import Detect, threshold
from peel_research.lab.rivals.diffstats import Diffstats, expected_counts
from peel_research.lab.rivals.ldpguard import LdpGuard
from peel_research.lab.rivals.poisoncatcher import PoisonCatcher, weighted_f2
from peel_research.lab.rivals.recover import LdpRecover, Normalised, on_simplex
from peel_research.lab.rivals.thresholds import Expert

DEVICES, CATEGORIES, TARGETS = 60_000, 102, np.arange(60, 70)


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


# ---- DETECT ----


def flagged(rival: Rival, collected: Collected) -> Bools:
    """Whom a defence flags that is told nothing; bool[devices]."""
    judged = rival.judge(collected, Knowledge())
    assert judged is not None and judged.flags is not None
    return judged.flags


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1])
def test_detect_finds_the_share_that_ldpguards_paper_prints_for_it(share: float) -> None:
    """LDPGuard's table 5, OUE under MGA with ten targets, epsilon 1, IPUMS (102 categories): 0.010, 0.050, 0.100."""
    fakes = round(share * DEVICES)
    reports = targeted_oue(oue(zipf(DEVICES, CATEGORIES, rng()), CATEGORIES, 1.0, rng()), fakes, TARGETS, rng())
    judged = Detect().judge(reports, Knowledge())
    assert judged is not None and judged.flags is not None and judged.ratio is not None
    assert judged.ratio == pytest.approx(share, abs=0.001)
    assert judged.flags[:fakes].all()


def test_detect_is_silent_where_reports_are_random_vectors() -> None:
    """Its table 5 prints 7E-05 for random reports: they share no set."""
    honest = oue(zipf(DEVICES, CATEGORIES, rng()), CATEGORIES, 1.0, rng())
    supports = honest.supports.copy()
    supports[:3000] = rng().random(supports[:3000].shape) < 0.5
    assert flagged(Detect(), Frequencies(supports, honest.p, honest.q)).mean() < 0.01


def test_honest_devices_seldom_make_a_set_look_abnormal() -> None:
    silent = [not flagged(Detect(), oue(zipf(2000, 24, rng(seed)), 24, 1.0, rng(seed))).any() for seed in range(20)]
    assert all(silent)


def test_detects_threshold_holds_its_probability() -> None:
    p, q = 0.5, 1 / (np.e + 1)
    least = threshold(1000, 1, 1, p, q, 0.01)
    counts = rng().binomial(1000, max(p, q), 200_000)
    assert (counts >= least).mean() <= 0.01
    assert (counts >= least - 20).mean() > 0.001, "so far off that it says nothing"


# ---- LDPGuard ----


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1])
def test_ldpguard_finds_the_share_that_it_prints_when_told_the_targets(share: float) -> None:
    """Its table 5, kRR under MGA, ten targets, epsilon 1: 0.009, 0.050, 0.099."""
    devices = 390_000
    honest = krr(zipf(devices, CATEGORIES, rng()), CATEGORIES, 0.5, 2, rng())
    reports = targeted_krr(honest, round(share * devices), TARGETS, rng())
    judged = LdpGuard(knows_targets=True).judge(reports, Knowledge(targets=TARGETS))
    assert judged is not None and judged.ratio is not None and judged.estimate is not None
    assert judged.ratio == pytest.approx(share, abs=0.006)
    gain = (reports.estimate - honest.estimate)[TARGETS].sum()
    assert abs((judged.estimate - honest.estimate)[TARGETS].sum()) < 0.25 * gain


def test_ldpguard_says_anything_without_the_targets() -> None:
    """Its tables print 0.117 and 0.593 for 0.05 where fake reports are random: two small numbers are divided."""
    found = []
    for seed in range(8):
        reports = krr(zipf(20_000, CATEGORIES, rng(seed)), CATEGORIES, 0.5, 2, rng(seed + 100))
        judged = LdpGuard(knows_targets=False).judge(reports, Knowledge())
        assert judged is not None and judged.ratio is not None
        found.append(judged.ratio)
    assert np.std(found) > 0.5, "all devices were honest"


# ---- Diffstats ----


def test_diffstats_finds_crafted_reports_and_spares_the_honest() -> None:
    fakes = 250
    honest = oue(zipf(5000, 64, rng()), 64, 1.0, rng())
    assert not flagged(Diffstats(), honest).any()
    judged = Diffstats().judge(targeted_oue(honest, fakes, np.arange(30, 40), rng()), Knowledge())
    assert judged is not None and judged.flags is not None
    assert judged.flags[:fakes].mean() > 0.95
    assert judged.flags[fakes:].mean() < 0.01


def test_diffstats_expects_what_honest_reports_show() -> None:
    reports = oue(zipf(100_000, 10, rng()), 10, 1.0, rng())
    observed = np.bincount(reports.supports[:, 0, :4].sum(axis=1), minlength=5)
    assert expected_counts(observed, reports.p, reports.q) == pytest.approx(observed, rel=0.05)


# ---- recovery ----


def test_recovery_told_the_truth_is_nearer_to_the_honest_frequencies() -> None:
    fakes, devices = 2000, 40_000
    held = zipf(devices, CATEGORIES, rng())
    reports = targeted_krr(krr(held, CATEGORIES, 1.0, 1, rng()), fakes, TARGETS, rng())
    truth = np.bincount(held[fakes:], minlength=CATEGORIES) / (devices - fakes)
    known = Knowledge(targets=TARGETS, ratio=fakes / (devices - fakes))

    def error(defence: LdpRecover | Normalised) -> float:
        judged = defence.judge(reports, known)
        assert judged is not None and judged.estimate is not None
        assert judged.estimate.sum() == pytest.approx(1)
        assert judged.estimate.min() >= 0
        return float(((judged.estimate - truth) ** 2).mean())

    told, untold = error(LdpRecover(knows_targets=True)), error(LdpRecover(knows_targets=False))
    poisoned = float(((reports.estimate - truth) ** 2).mean())
    assert told < untold < poisoned
    assert told < 0.1 * poisoned, "the rest is what honest coins leave"
    assert error(Normalised()) < poisoned


def test_projection_is_the_nearest_point() -> None:
    """No other frequencies are nearer, and no point of them is changed."""
    point = np.array([0.7, 0.5, -0.3, 0.05])
    nearest = on_simplex(point)
    assert nearest == pytest.approx([0.6, 0.4, 0, 0])
    others = rng().dirichlet(np.ones(4), 2000)
    assert (((others - point) ** 2).sum(axis=1) >= ((nearest - point) ** 2).sum()).all()
    assert on_simplex(others[0]) == pytest.approx(others[0])


# ---- PoisonCatcher, thresholds ----


def test_who_flags_nobody_scores_well_by_a_weighted_f2() -> None:
    """Why the lab states recall and false positives instead: PoisonCatcher's abstract has 0.907."""
    truth = np.arange(1000) < 50
    assert weighted_f2(truth, np.zeros(1000, bool)) > 0.907
    assert weighted_f2(truth, truth) == 1


def lies(devices: int, fakes: int, shift: float, rounds: int = 10) -> tuple[Numbers, Numbers]:
    """A clean past, and rounds in which the first devices add to what they send."""
    draw = rng()
    readings = draw.uniform(-1, 1, (devices, 1))
    clean, now = (readings + draw.laplace(0, 2.0, (devices, rounds)) for _ in range(2))
    now[:fakes] += shift
    return Numbers(clean, 2.0), Numbers(now, 2.0)


@pytest.mark.parametrize(("shift", "found"), [(100.0, True), (0.0, False)])
def test_poisoncatcher_finds_what_stands_out_and_nothing_that_does_not(shift: float, found: bool) -> None:
    clean, now = lies(400, 20, shift)
    order = np.random.default_rng(3).permutation(400)
    truth = order < 20
    known = Knowledge(clean=Numbers(clean.values[order], 2.0), labels=truth[:200])
    for rival in (PoisonCatcher(has_labels=True), PoisonCatcher(has_labels=False)):
        judged = rival.judge(Numbers(now.values[order], 2.0), known)
        assert judged is not None and judged.flags is not None
        recall, alarms = judged.flags[200:][truth[200:]].mean(), judged.flags[200:][~truth[200:]].mean()
        assert recall > 0.8 if found else recall < 0.2, rival.name
        assert alarms < 0.1, rival.name


def test_an_experts_thresholds_are_crossed_by_honest_noise_too() -> None:
    clean, now = lies(2000, 100, 30.0)
    assert flagged(Expert(), now)[:100].all()
    honest = Expert().judge(clean, Knowledge())
    assert honest is not None and honest.flags is not None
    assert 0.01 < honest.flags.mean() < np.exp(-3), "one in twenty, of those who read the end of the range"


# ---- all ----


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)
def test_a_defence_judges_what_it_applies_to_with_what_it_says_it_assumes(rival: Rival) -> None:
    honest = krr(zipf(300, 8, rng()), 8, 1.0, 4, rng())
    numbers, _ = lies(300, 0, 0.0)
    several = oue(zipf(300, 8, rng()), 8, 1.0, rng())
    collections: tuple[Collected, ...] = (honest, numbers, several)
    applied = 0
    for collected in collections:
        known = Knowledge(np.arange(2), collected, np.zeros(150, bool) | (np.arange(150) < 8), 0.05)
        judged = rival.judge(collected, known)
        if judged is None:
            continue
        applied += 1
        assert judged.flags is None or (judged.flags.shape == (300,) and judged.flags.dtype == bool)
        assert judged.ratio is not None or judged.estimate is not None
        assert judged.estimate is None or np.isfinite(judged.estimate).all()
    assert applied
