# SPDX-License-Identifier: MIT
"""docs/promise.json is the output of `peel bench promise --json`, and keeps the promised bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peel_research.promise import measure, mixed
from peel_research.promise.engine import burst_share_over_fair, coalition, late_delivery
from peel_research.promise.picking import HELD, SETTINGS, pick
from peel_research.promise.picking import STRATEGIES as PICKING
from peel_research.promise.verified import figures
from peel_research.promise.verified_insiders import GAMES, replay
from peel_research.promise.verified_strategies import STRATEGIES as INSIDERS
from peel_research.promise.wasting import sacrifice
from peel_tools.planning.arena import HarmonyArena, KrrArena
from peel_tools.planning.insider import STRATEGIES, exposed_after

FIGURES: dict[str, Any] = json.loads((Path(__file__).resolve().parents[1] / "promise.json").read_text())

TARGETS = {
    "eps1_k252": {
        "ratio_1000": 1.7, "ratio_10000": 1.2, "ratio_100000": 1.06,
        "sleeper_ratio_1000": 1.8, "sleeper_ratio_10000": 1.25, "sleeper_ratio_100000": 1.08,
    },
    "eps0.5_k252": {"ratio_1000": 2.6, "ratio_10000": 1.4, "ratio_100000": 1.12},
}  # fmt: skip


def test_the_figures_keep_the_promise() -> None:
    for arena, targets in TARGETS.items():
        for name, most in targets.items():
            assert FIGURES["harmony"][arena][name] <= most, f"{arena} {name}"
    waits = FIGURES["reports_until_exposed"]
    assert waits["sleeper_always_plus"] <= 150
    for name in ("krr_8_of_16", "krr_10_of_252", "krr_50_of_252"):
        assert waits[name] <= 150
    assert all(waits[name] <= 1000 for name in waits if "hashing_without_" in name)
    assert FIGURES["burst_share_over_fair"] <= 1.5
    for table in FIGURES["bucket_share_over_fair"].values():
        for row in table.values():
            for held in HELD:
                assert row[f"held_{held}"] <= 1.2 * table["richest_window"][f"held_{held}"], "or there is a better way"
    for name, row in FIGURES["mixed"]["harm"].items():
        assert 1 < row["ratio_10000"] <= row["sleeper_ratio_10000"] <= 1.3 and row["ratio_1000"] <= 1.8, name
    unseen = {name for name, reports in FIGURES["mixed"]["reports_until_exposed"].items() if reports is None}
    assert unseen == {"honest", "light_question_favoured_by_no_reading"}
    assert FIGURES["honest_exposed"] == 0
    assert FIGURES["honest_reports"] >= 2_000_000


def test_wasted_reports_keep_the_promise() -> None:
    wasting = FIGURES["wasting"]
    for targets, row in wasting["sacrifice"]["eps1_k252_n10000"].items():
        assert row["overall"] <= 1.22, targets
        assert row["targets"] <= 1.45, targets
    assert wasting["sacrifice_on_engine"]["overall"] <= 1.22
    assert wasting["hysteresis"]["eps1_k8"]["ratio_40000"] <= 1.07
    assert all(reports <= 1000 for reports in wasting["suppression_on_engine"].values())
    assert wasting["suppression_on_engine"].keys() == {"eps1_d200", "eps1_d5000"}


def test_a_sacrifice_again() -> None:
    k, reports = measure.SACRIFICES[0]
    targets = round(measure.SHARES[-1] * k)
    found = max(sacrifice(HarmonyArena(1.0, k), reports, targets, seed).overall for seed in range(measure.WASTES))
    assert round(found, 3) == FIGURES["wasting"]["sacrifice"][f"eps1_k{k}_n{reports}"][f"targets_{targets}"]["overall"]


def test_the_figures_are_of_what_is_measured_today() -> None:
    assert list(FIGURES["harmony"]) == [f"eps{epsilon:g}_k{k}" for epsilon, k in measure.HARMONY]
    assert list(FIGURES["krr"]) == [f"eps{epsilon:g}_k{k}" for epsilon, k in measure.KRR]
    assert list(FIGURES["hashing"]) == [f"eps{epsilon:g}_d{domain}" for epsilon, domain in measure.HASHING]
    assert list(FIGURES["bucket_share_over_fair"]) == [setting.name for setting in SETTINGS]
    assert all(list(table) == list(PICKING) for table in FIGURES["bucket_share_over_fair"].values())
    assert set(FIGURES["reports_until_exposed"]) >= {strategy.name for strategy in STRATEGIES}
    assert list(FIGURES["mixed"]["reports_until_exposed"]) == list(mixed.PLAYS)
    assert mixed.mixed_setting().items() <= FIGURES["mixed"].items()


def test_a_bench_prints_the_same_figures_again() -> None:
    """The kernel and the seeds are the same everywhere, so the figures are too. Repeat the quick ones."""
    assert measure._insider(HarmonyArena(1.0, 1)).items() <= FIGURES["harmony"]["eps1_k1"].items()
    assert measure._insider(KrrArena(1.0, 4)).items() <= FIGURES["krr"]["eps1_k4"].items()


def test_the_figures_of_verified_coins() -> None:
    assert FIGURES["verified"].items() >= figures().items()
    assert FIGURES["verified"]["honest_exposed"] == FIGURES["verified"]["malicious_gateway_excess"] == 0
    assert FIGURES["verified"]["honest_reports"] >= 100_000


def test_insiders_do_what_was_computed() -> None:
    found = FIGURES["verified"]["insiders"]
    assert list(found) == [insider.name for insider in INSIDERS]
    for insider in INSIDERS:
        row = found[insider.name]
        assert row["exact"] == round(insider.exact, 4), insider.name
        assert abs(row["replayed"] - row["exact"]) < 3 * row["standard_error"] < 0.3, insider.name
        assert "honest_exposed" not in row, insider.name


def test_an_insider_again() -> None:
    insider = next(each for each in INSIDERS if each.name == "hit_and_run")
    again = replay(insider, GAMES)
    assert round(again.harm, 4) == FIGURES["verified"]["insiders"][insider.name]["replayed"]


@pytest.mark.parametrize("strategy", [each for each in STRATEGIES if each.life is None], ids=lambda each: each.name)
def test_a_strategy_is_exposed_as_soon_as_it_says(strategy: Any) -> None:
    slowest = FIGURES["reports_until_exposed"][strategy.name]
    waited = exposed_after(strategy, np.random.default_rng(0))
    assert waited is not None
    assert waited <= slowest


def test_a_mixed_profile_again() -> None:
    name = "always_choice_weight16"
    waited = mixed.exposed_after(name, seed=0)
    assert waited is not None and waited <= FIGURES["mixed"]["reports_until_exposed"][name]


def test_the_whole_engine_again() -> None:
    assert round(burst_share_over_fair(), 3) == FIGURES["burst_share_over_fair"]
    picked = pick(SETTINGS[0], "rest_never", HELD[0])
    assert (
        round(picked.share, 3) == FIGURES["bucket_share_over_fair"][SETTINGS[0].name]["rest_never"][f"held_{HELD[0]}"]
    )
    assert late_delivery() == FIGURES["reports_until_exposed"]["late_delivery"]
    found = coalition(0.05)
    assert found.slowest == FIGURES["reports_until_exposed"]["coalition_of_5%"]
    assert found.honest_exposed == 0
