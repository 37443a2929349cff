# SPDX-License-Identifier: MIT
"""Table (a): what is claimed of each defence, ours included, and what is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from json import dumps

import numpy as np
import pytest

from peel_research.lab.data import LabData, load_data
from peel_research.lab.limits import FALSE_POSITIVES, LIMITED, best_flags
from peel_research.lab.printed import PRINTED_RATIOS
from peel_research.lab.ratios import RatioRow, ratios
from peel_research.lab.rivals import RIVALS, Frequencies, Numbers
from peel_research.lab.scenes import SCENES, SHARE, make_scene
from peel_research.lab.spread import Spread

PAPER, OURS = "PEEL, as its paper has it", "Peel, all layers"


@pytest.fixture(scope="module")
def data() -> LabData:
    return load_data(None)


@pytest.fixture(scope="module")
def rows(data: LabData) -> list[RatioRow]:
    return ratios(data, seeds=1, quick=True)


def some(rows: Iterable[RatioRow], **wanted: str) -> list[RatioRow]:
    found = [row for row in rows if all(text in getattr(row, name) for name, text in wanted.items())]
    assert found, f"no row with {wanted}"
    return found


# ---- the table ----


def test_every_defence_is_tried_on_every_attack(rows: list[RatioRow]) -> None:
    for mechanism, attack in SCENES:
        named = {row.defence for row in some(rows, mechanism=mechanism, attack=attack)}
        assert named >= {rival.name for rival in RIVALS}
        assert named >= {PAPER, OURS} or attack in ("targets", "none")


def test_every_printed_figure_stands_beside_ours(rows: list[RatioRow]) -> None:
    for (mechanism, attack), figures in PRINTED_RATIOS.items():
        for defence, figure in figures.items():
            shown = some(rows, mechanism=mechanism, attack=attack, defence=defence)
            assert any(row.printed == figure.weather for row in shown), (mechanism, attack, defence)


def test_it_can_be_written_as_json(rows: list[RatioRow]) -> None:
    assert "NaN" not in dumps([asdict(row) for row in rows], allow_nan=False)


# ---- what is claimed ----


@pytest.mark.parametrize(("mechanism", "attack"), PRINTED_RATIOS)
def test_the_papers_residual_exposes_nothing_that_is_encoded_like_any_report(
    rows: list[RatioRow], mechanism: str, attack: str
) -> None:
    (row,) = some(rows, mechanism=mechanism, attack=attack, defence=PAPER, acts="before the encoder")
    assert row.recall is not None and row.recall.mean == 0
    assert row.printed == 5


@pytest.mark.parametrize("mechanism", ["Laplace", "kRR"])
def test_the_papers_residual_exposes_noise_on_y(rows: list[RatioRow], mechanism: str) -> None:
    (row,) = some(rows, mechanism=mechanism, attack="output", defence=PAPER, acts="on y")
    assert row.recall is not None and row.false_positives is not None
    assert row.recall.mean > 0.3
    assert row.false_positives.mean == 0


@pytest.mark.parametrize("mechanism", ["Laplace", "kRR"])
def test_ours_exposes_declared_budgets_and_tampering_and_says_so_of_no_hidden_one(
    rows: list[RatioRow], mechanism: str
) -> None:
    by_acts = {
        row.acts: row for row in some(rows, mechanism=mechanism, defence=OURS) if row.attack in ("rule", "output")
    }
    for acts, row in by_acts.items():
        assert row.recall is not None and row.false_positives is not None
        assert row.false_positives.mean == 0, acts
        exposed = any(word in acts for word in ("the frame carries it", "any attribute", "coordinate", "bit changed"))
        assert row.recall.mean == (1 if exposed else 0), acts
        assert row.ratio is not None and (row.ratio.mean > 0) == exposed, acts
    assert any("behind the right odds" in acts for acts in by_acts), "what is not exposed has to be in the table"


def test_who_defends_nothing_names_nobody(rows: list[RatioRow]) -> None:
    for row in some(rows, defence="no defence"):
        assert row.ratio == Spread(0, 0, 0)
        assert row.error is not None and row.error.mean > 0


def test_defences_that_do_not_apply_have_no_figure(rows: list[RatioRow]) -> None:
    for defence in ("DETECT", "LDPGuard", "Diffstats"):
        for row in some(rows, mechanism="Laplace", defence=defence):
            assert row.ratio is None
            assert "does not apply" in row.note
    assert all(row.recall is None for row in some(rows, defence="LDPGuard")), "it says how many, never who"


def test_where_nobody_is_poisoned_there_is_nobody_to_find(rows: list[RatioRow]) -> None:
    for row in some(rows, attack="none"):
        assert row.recall is None
        if row.defence in ("DETECT", "Diffstats"):
            assert row.ratio is None or row.ratio.mean == 0


# ---- what it is made of ----


@pytest.mark.parametrize(("mechanism", "attack"), SCENES)
def test_a_scene_poisons_five_percent_and_leaves_the_past_clean(data: LabData, mechanism: str, attack: str) -> None:
    scene = make_scene(data, mechanism, attack, 4000, 6, 1.0, seed=3)
    assert scene.poisoned.sum() == (0 if attack == "none" else SHARE * 4000)
    assert np.abs(scene.clean.estimate - scene.truth).max() < 0.08, "unbiased"
    honest = scene.now.of(~scene.poisoned)
    assert np.abs(honest.estimate - scene.truth).max() < 0.08
    assert scene.halves.rounds == 2


def test_output_poisoning_doubles_the_variance_of_laplace_noise(data: LabData) -> None:
    scene = make_scene(data, "Laplace", "output", 8000, 20, 1.0, seed=2)
    assert isinstance(scene.now, Numbers)
    variance = [scene.now.of(who).values.var(axis=1).mean() for who in (scene.poisoned, ~scene.poisoned)]
    assert variance[0] == pytest.approx(2 * variance[1], rel=0.15)


def test_targeted_reports_support_targets_and_look_like_others(data: LabData) -> None:
    for mechanism in ("kRR", "OUE"):
        scene = make_scene(data, mechanism, "targets", 2000, 4, 1.0, seed=1)
        assert isinstance(scene.now, Frequencies) and scene.targets is not None
        crafted = scene.now.supports[scene.poisoned]
        assert crafted[:, :, scene.targets].any(axis=2).all()
        assert mechanism == "OUE" or (crafted.sum(axis=2) == 1).all()


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    draws = np.random.default_rng(5).normal(3.0, 2.0, (4000, 5))
    spreads = [Spread.of(row.tolist()) for row in draws]
    assert np.mean([each.low <= 3 <= each.high for each in spreads]) == pytest.approx(0.95, abs=0.015)
    assert Spread.of([4.0]) == Spread(4, 4, 4)
    assert Spread.of([0.0, 1.0], 0, 1) == Spread(0.5, 0, 1)


# ---- the most that can be found ----


@pytest.mark.parametrize(("mechanism", "attack"), LIMITED)
def test_no_defence_finds_more_than_the_best_test_at_its_rate(data: LabData, mechanism: str, attack: str) -> None:
    """Any statistic of the reports and the readings is beaten: here how far reports are from the reading."""
    scene = make_scene(data, mechanism, attack, 20_000, 10, 1.0, seed=4)
    best = best_flags(scene, mechanism, attack, 1.0)
    honest = ~scene.poisoned
    assert best[honest].mean() == pytest.approx(FALSE_POSITIVES, abs=0.002)
    held = scene.held[:, None]
    said = scene.now.values if isinstance(scene.now, Numbers) else scene.now.supports.argmax(axis=2)
    for distance in (np.abs(said - held).mean(axis=1), np.abs(said - held).max(axis=1), (said != held).mean(axis=1)):
        drawn = distance + 1e-9 * np.random.default_rng(2).random(len(distance))
        other = drawn > np.quantile(drawn[honest], 1 - FALSE_POSITIVES)
        assert other[scene.poisoned].mean() <= best[scene.poisoned].mean() + 0.03


def test_the_best_test_finds_all_of_a_gross_attack_with_many_rounds(data: LabData) -> None:
    """It does not find little because it is bad: with two hundred rounds it finds nearly everybody."""
    scene = make_scene(data, "Laplace", "output", 2000, 200, 1.0, seed=4)
    assert best_flags(scene, "Laplace", "output", 1.0)[scene.poisoned].mean() > 0.98


def test_with_ten_rounds_nobody_can_name_all_that_the_paper_says_are_named(rows: list[RatioRow]) -> None:
    for mechanism, attack in LIMITED:
        (row,) = some(rows, mechanism=mechanism, attack=attack, defence="best possible test")
        assert row.recall is not None and row.recall.mean < 0.8
