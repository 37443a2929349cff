# SPDX-License-Identifier: MIT
"""The best play of an insider against verified coins, by exact dynamic programming, and replayed on the model."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import comb, sqrt

import pytest

from coin_model import Commit, Dice, Fixed, Gateway, Odds, Open, Report, Reveal, Root, Shape, Tables
from peel_research.promise.verified import BATCH, HARMONY, HASHING, KRR, LENGTHS, Coin, figures, harm, pausing

HALF = Fraction(1, 2)


def row(coin: Coin, digits: int, *, one_bucket: bool = False) -> list[float]:
    return [round(float(harm(coin, n, group=n if one_bucket else 1)), digits) for n in LENGTHS]


def test_one_target_number_per_batch() -> None:
    assert row(HARMONY, 4) == [1.65, 1.1775, 1.0444, 1.0089]


def test_all_in_one_bucket() -> None:
    assert row(HARMONY, 3, one_bucket=True) == [1.65, 1.077, 1.002, 1.0]


def test_four_audits_of_a_batch() -> None:
    assert row(replace(HARMONY, audits=4), 3) == [1.925, 1.5, 1.125, 1.025]


def test_other_coins() -> None:
    """At their odds; an epsilon of exactly 1 has slightly lower caps."""
    assert (HARMONY.gain, HASHING.gain, KRR.gain) == (Fraction(11, 5), Fraction(14, 5), Fraction(10))
    assert row(HASHING, 4)[-1] == 1.0186
    assert row(KRR, 4)[-1] == 1.0575
    hashing, krr = Coin(2718, 1000, 3, Fraction(1, 3)), Coin(2718, 1000, 16, Fraction(1000, 17718), audits=16)
    assert round(float(hashing.gain), 2) == 2.75
    assert round(float(harm(hashing, 100)), 3) == 1.018
    assert round(float(harm(krr, 100)), 3) == 1.055


@pytest.mark.parametrize(("reports", "most"), [(1, 1.6), (5, 1.0771), (20, 1.0024)])
def test_keeping_back_a_group_of_fair_tables(reports: int, most: float) -> None:
    assert pausing(HARMONY, reports, reports, full=reports, keep_back=True).harm == pytest.approx(most, abs=5e-5)


@pytest.mark.parametrize(("group", "gain"), [(1, 1.85), (5, 1.29), (10, 1.13)])
def test_pausing_inside_a_bucket_of_twenty(group: int, gain: float) -> None:
    """If a bucket were challenged in parts, an insider could pause after a good one."""
    assert round(pausing(HARMONY, 20, group, full=1).harm, 2) == gain
    assert pausing(HARMONY, 20, group, full=20).harm == pytest.approx(1)


def test_pausing_across_buckets_in_a_mean_over_devices() -> None:
    """He gains if each device counts once, and nothing if it counts in proportion to at least as many reports as he can send."""
    assert round(pausing(HARMONY, 60, 5, full=1).harm, 2) == 1.37
    assert round(pausing(HARMONY, 60, 5, full=1, keep_back=True).harm, 2) == 1.45
    for full in (60, 120):
        assert pausing(HARMONY, 60, 5, full=full).harm == pytest.approx(1)
        assert pausing(HARMONY, 60, 5, full=full, keep_back=True).harm < 1.01


@pytest.mark.parametrize("group", [1, 5, 7, 20])
def test_where_no_report_is_above_the_full_weight_a_mean_over_devices_is_one_over_reports(group: int) -> None:
    best = pausing(HARMONY, 20, group, full=40, keep_back=True, forge=True)
    assert best.harm == pytest.approx(float(harm(HARMONY, 20, group)))


def test_a_full_weight_at_the_promise_itself_is_not_enough() -> None:
    """The number of reports about one question varies. Beyond the full weight an insider stops whenever his mean is best."""
    assert pausing(HARMONY, 80, 5, full=60, keep_back=True, forge=True).harm > 1.05
    assert pausing(HARMONY, 80, 5, full=120, keep_back=True, forge=True).harm < 1.02


@pytest.mark.parametrize("reports", LENGTHS)
def test_batches_that_are_approved_in_advance_give_no_more(reports: int) -> None:
    """All audits come before the first report, so each forged table risks everything. So approved batches need no limit."""
    ahead = max(HARMONY.unaudited**forged * (reports - forged + forged * HARMONY.gain) for forged in range(reports + 1))
    assert ahead / reports <= harm(HARMONY, reports)


@pytest.mark.parametrize("forged", range(2, 25))
def test_several_forged_tables_in_one_batch_are_found_more_often(forged: int) -> None:
    together = Fraction(comb(BATCH - forged, HARMONY.audits), comb(BATCH, HARMONY.audits))
    assert together < HARMONY.unaudited**forged


def test_figures_keep_their_bounds() -> None:
    found = figures()
    assert found["harmony_eps1"]["n20"] <= 1.05
    assert found["harmony_eps1"]["n100"] <= 1.01
    assert found["harmony_eps1"]["bucket_n20"] <= 1.02
    assert found["krr16_eps1"]["n100"] <= 1.06
    assert found["hashing5000_eps1"]["n100"] <= 1.03
    assert found["over_devices_n60"] <= 1.05


def test_the_best_play_on_the_model() -> None:
    """Five reports, one per batch and bucket: fair tables on a lie, and two forged ones at the end."""
    games = [_five_reports(seed) for seed in range(600)]
    mean = sum(games) / len(games)
    error = sqrt(sum((game - mean) ** 2 for game in games)) / len(games)
    assert error < 0.06
    assert abs(mean - float(harm(HARMONY, 5))) < 3 * error


def _five_reports(seed: int) -> float:
    """Return the harm per report of one game. The target number is the first of each batch that a fair audit leaves."""
    shape = Shape(BATCH, HARMONY.audits, Odds(8, 3))
    dice = Dice(seed)
    gateway, tables = Gateway(shape, dice), Tables(shape.odds, Fixed())
    for turn in range(5):
        first, secret = 1 + turn * BATCH, f"secret {turn}"
        numbers = range(first, first + BATCH)
        forged = turn >= 3
        if forged:
            tables.forge(secret, first, (1,) * shape.odds.entries)
        gateway.receive(Commit(first, tuple(Root(secret, number, tables) for number in numbers)))
        audit = gateway.db.batches[first].audit
        if forged and first in audit:
            break  # silence: the device stalls, and what counted stays
        gateway.receive(Reveal(first, tuple((number, tables.table(secret, number)) for number in sorted(audit))))
        number = first if forged else min(set(numbers) - audit)
        gateway.receive(Report(number, 0 if forged else 1))  # all masks are 0
        gateway.end_bucket()
        for challenged, i in gateway.receipt().challenge:
            gateway.receive(Open(challenged, i, tables.table(secret, challenged).outcomes[i]))
    return sum(2 * entry.symbol - 1 for entry in gateway.db.log) * float(HARMONY.gain) / 5


def test_harm_of_symbols_is_counted_from_a_neutral_rate() -> None:
    """A fair table on a lie does the harm 1."""
    for coin in (HARMONY, HASHING, KRR, Coin(3, 1, 2, HALF)):
        assert coin.wanted * coin.gain + (1 - coin.wanted) * coin.loss == 1
