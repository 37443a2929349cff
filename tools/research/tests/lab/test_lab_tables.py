# SPDX-License-Identifier: MIT
"""`peel lab tables` prints the figures that other programs read, the page, and the bound on an insider."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from peel_core.hashing import hashed
from peel_core.kinds import KINDS
from peel_gateway.model.verdict import Layer
from peel_research.lab.aim import ANY_KIND, MIXED
from peel_research.lab.arena import QUICK
from peel_research.lab.attacks import LAB_ATTACKS
from peel_research.lab.cells import times
from peel_research.lab.data import load_data
from peel_research.lab.exposure import attack_table, planned
from peel_research.lab.insider import FRACTIONS, Capital, insider_table, most_lead, plus_bound, turning_bound
from peel_research.lab.page import page
from peel_research.lab.words import sections, summary
from peel_tools.cli import main
from peel_tools.planning.arena import HarmonyArena, HashingArena
from peel_tools.planning.insider import HONEST_LIFE, in_order, ratios

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def figures(folder: Path) -> dict[str, Any]:
    """Of a quick run, as a program reads them: standard JSON, on the last line."""
    done = CliRunner().invoke(
        main, ["lab", "tables", "--quick", "--json", "--out", str(folder)], catch_exceptions=False
    )
    assert done.exit_code == 0
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1], parse_constant=_refuse)
    return found


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def test_all_that_has_a_layer_is_exposed_and_nothing_honest_is(figures: dict[str, Any]) -> None:
    assert figures["false_positive_rate"] == 0 and figures["honest_reports"] > 90_000
    assert figures["honest_devices_exposed"] == 0
    expected = {name: float(attack.layer is not None) for name, attack in LAB_ATTACKS.items() if name != "random_loss"}
    assert figures["exposure"] == expected


def test_every_attack_is_exposed_by_the_layer_it_names(figures: dict[str, Any]) -> None:
    for row in figures["attacks"]:
        if row["layer"]:
            later = ("withdrawal",) if row["layer"] != "statistics" else tuple(row["layers"])
            assert row["layers"][row["layer"]] > (0.08 if row["mixed"] else 0.2), row
            assert max(row["layers"], key=row["layers"].get) in (row["layer"], *later), row


def test_what_is_published_is_off_by_no_more_than_a_lie(figures: dict[str, Any]) -> None:
    for row in figures["attacks"]:
        # An adaptive insider has 1.29 in so short a run. In a mixed profile each block of bets has less capital.
        assert row["after_over_liar"]["mean"] < (1.5 if row["mixed"] else 1.35), row


def test_an_insider_comes_close_to_his_bound_and_never_beyond(figures: dict[str, Any]) -> None:
    assert 0.9 < figures["adaptive_shift_over_bound"] <= 1
    assert figures["adaptive_shift_over_liar"]["harmony"]["10000"] < 1.2
    for row in figures["insider"]:
        assert row["newcomer"] <= row["steady"] <= (row["bound"] or row["cap"]) <= row["cap"], row


@pytest.mark.parametrize("categories", [2, 3])
def test_a_file_with_few_categories_has_its_bounds(categories: int) -> None:
    """A door that is open, shut or ajar: sets of two categories are more than half of them."""
    rows = insider_table(1.0, 2, categories, quick=True)
    assert {row.mechanism for row in rows} == {"harmony", "krr", "hashing"}
    assert all(row.steady is None or row.newcomer <= row.steady <= row.cap for row in rows), rows


def test_every_mechanism_that_devices_run_is_in_the_tables(figures: dict[str, Any]) -> None:
    for table in ("attacks", "insider"):
        assert {row["mechanism"] for row in figures[table]} - {MIXED} == {"harmony", "krr", "hashing"}, table


def test_every_kind_of_attribute_is_attacked_alone_and_in_a_mixed_profile(figures: dict[str, Any]) -> None:
    kinds = {mixed: {row["kind"] for row in figures["attacks"] if row["mixed"] == mixed} for mixed in (False, True)}
    assert kinds == {False: {"mean", "category", "hashed"}, True: {*KINDS, ANY_KIND}}
    table = next(part for part in sections(figures) if part.key == "exposed")
    place = table.header.index("kind")
    assert {row[place] for row in table.rows if row[place - 1] == "mixed"} == {*KINDS, ANY_KIND}


def test_a_file_with_numbers_and_categories_is_attacked_in_one_mixed_profile(tmp_path: Path) -> None:
    rows = (f"{15 + i * 7 % 16},{400 + i * i * 37 % 900},{('open', 'shut', 'ajar')[i * i % 5 % 3]}" for i in range(60))
    (tmp_path / "room.csv").write_text("temperature (°C),co2 (ppm),door\n" + "\n".join(rows) + "\n")
    data = load_data(tmp_path / "room.csv")
    assert data.names == ("temperature", "co2") and data.subject == "door"
    chosen = {"biased_coin_always", "false_reading_DIPA", "replay"}
    plan = [(attack, aim) for attack, aim in planned(data, quick=True) if attack.name in chosen]
    table = attack_table(data, plan, QUICK, progress=lambda _: None)
    assert table.honest_refused == table.honest_exposed == 0
    mixed = [row for row in table.rows if row.mixed]
    assert {row.aim.kind for row in mixed if row.attack.layer is Layer.STATISTICS} == set(KINDS)
    for row in mixed:
        assert row.exposure is not None
        assert row.exposure.mean == float(row.attack.layer is not None), (row.attack.name, row.aim.kind)
    (profile,) = {row.aim.profile for row in mixed}
    assert {(each.name, each.kind) for each in profile.attributes} == {
        ("temperature", "mean"), ("co2", "mean"), ("temperature", "above"), ("co2", "ladder"), ("door", "category"), ("door", "hashed"),
    }  # fmt: skip


def test_the_bound_holds_for_a_sleeper_too() -> None:
    arena = HarmonyArena(1.0, 8)
    rng = np.random.default_rng(4)
    lengths = (300, 1000, 10_000)
    goal = arena.goals(rng)[0]
    measured = ratios(arena, [goal], lengths, rng)
    for n in lengths:
        assert measured[f"ratio_{n}"] <= plus_bound(_capital(arena, "plus"), goal, n)
        assert measured[f"sleeper_ratio_{n}"] <= plus_bound(_capital(arena, "plus"), goal, n, HONEST_LIFE + 64)


def test_plus_and_minus_have_the_same_capital() -> None:
    predictions = HarmonyArena(1.0, 8).e_process.bets.blocks[0].predictions
    assert predictions is not None and predictions.capital["plus"] == predictions.capital["minus"]


@pytest.mark.parametrize("arena", [HarmonyArena(1.0, 8), HashingArena(1.0, 16)], ids=["harmony", "hashing"])
def test_the_bound_holds_for_a_sleeper_with_directions_of_his_own(arena: HarmonyArena | HashingArena) -> None:
    rng = np.random.default_rng(4)
    lengths = (1000, 10_000, 30_000)
    goal = arena.goals(rng)[1]
    units, symbols = (arena.k, 2) if isinstance(arena, HarmonyArena) else (arena.hashes, arena.symbols)
    measured = ratios(arena, [goal], lengths, rng)
    bounds = [
        turning_bound(_capital(arena, "own past"), goal, n, units, honest=HONEST_LIFE + 64, lead=most_lead(symbols))
        for n in lengths
    ]
    for n, bound in zip(lengths, bounds, strict=True):
        assert measured[f"sleeper_ratio_{n}"] <= bound <= goal.gain
    assert bounds[-1] < 0.75 * goal.gain, "so far off that it says nothing"


def test_a_sleeper_may_push_unseen_by_the_bet_on_his_past_until_it_is_forgotten() -> None:
    """Each attribute has its lead against him: he is wrong, for the bet, with every push until that is a tie."""
    arena = HarmonyArena(1.0, 8)
    n = arena.k * most_lead(2)
    capital, goal = _capital(arena, "own past"), arena.mixed()
    assert turning_bound(capital, goal, n, arena.k, honest=HONEST_LIFE, lead=most_lead(2)) == pytest.approx(goal.gain)
    assert turning_bound(capital, goal, n, arena.k, honest=HONEST_LIFE) < 0.9 * goal.gain, "it would be no bound"


def test_a_lead_is_that_of_the_kernel() -> None:
    text = (ROOT / "gateway" / "kernels" / "predictions.c").read_text(encoding="utf-8")
    assert "most = (UINT8_MAX + 1) / predictions->symbols - 1;" in text
    assert [most_lead(symbols) for symbols in (2, 3, 5)] == [127, 84, 50]


def test_an_interval_that_is_cut_off_on_one_side_is_not_made_smaller() -> None:
    assert times({"mean": 0.01, "low": 0.0, "high": 0.05}) == "0.01 ± 0.04"


def _capital(arena: HarmonyArena | HashingArena, name: str) -> Capital:
    predictions = arena.e_process.bets.blocks[0].predictions
    assert predictions is not None
    return Capital(predictions.most, predictions.capital[name], arena.e_process.bets.late_share)


@pytest.mark.parametrize("wasted", [0.1, 0.2, 0.3])
def test_who_wastes_reports_to_make_ties_does_more_than_a_steady_insider_and_stays_below_the_bound_for_anybody(
    wasted: float,
) -> None:
    """A share of the attributes says plus and minus in turn: no bet, and one that is lost. The others are pushed, each its own way."""
    arena, n, rng = HarmonyArena(1.0, 20), 4000, np.random.default_rng(6)
    unit = arena.assign(rng, n)
    visit = np.array([np.count_nonzero(unit[:i] == each) for i, each in enumerate(unit)])
    symbol = np.where(unit < wasted * arena.k, visit % 2, unit % 2)
    exposed = int(arena.e_process.update(arena.e_process.new_states(1), in_order(unit, symbol, 1))[0])
    assert exposed > 0, "so it went beyond what anybody may for long"
    net = sum(abs(np.count_nonzero(unit[:exposed][symbol[:exposed] == 1] == each) * 2 - np.count_nonzero(unit[:exposed] == each))
              for each in range(arena.k))  # fmt: skip
    assert net / exposed / arena.bias <= turning_bound(_capital(arena, "own past"), arena.mixed(), exposed, arena.k)


WASTEFUL = [
    (pushed, back, turns) for pushed in (40, 50, 60) for back in (1, 2, 5, 9, 17, 33) for turns in (0, 4, 9, 14, 20, 30)
]
"""Pluses in a row, minuses after them, and how often plus and minus then come in turn, so that the bet loses and nothing is pushed."""


def test_fixed_patterns_of_wasted_reports_are_exposed_as_the_threat_model_says() -> None:
    """An honest device is not, on the same numbers."""
    arena, rng = HarmonyArena(1.0, 8), np.random.default_rng(1)
    unit = arena.assign(rng, 8 * 40_000)
    symbol = arena.toss(rng, np.zeros(len(unit)))  # honest about all other attributes
    assert arena.e_process.update(arena.e_process.new_states(1), in_order(unit, symbol, 1))[0] == -1
    for pushed, back, turns in WASTEFUL:
        symbol[unit == 0] = np.resize([1] * pushed + [0] * back + [1, 0] * turns, np.count_nonzero(unit == 0))
        at = int(arena.e_process.update(arena.e_process.new_states(1), in_order(unit, symbol, 1))[0])
        assert at >= 0, (pushed, back, turns)
    text = " ".join((ROOT / "THREAT_MODEL.md").read_text(encoding="utf-8").split())
    assert f"All of {len(WASTEFUL)} fixed patterns of that kind are exposed within 40,000 reports" in text


def _sharing(domain: int, size: int, seed: int) -> tuple[int, float, float]:
    """One of a few hashed categories for each of 30,000 reports, without noise: which report exposes it, or -1; harm to all of them over
    that of a liar who picks his lie by the hash; harm to the one that moves most over that of a lie about it."""
    arena, rng = HashingArena(1.0, domain), np.random.default_rng(seed)
    unit = arena.assign(rng, 30_000)
    each = hashed(unit[:, None], rng.choice(domain, size, replace=False), arena.symbols, domain)
    said = each[np.arange(len(unit)), rng.integers(0, size, len(unit))]
    exposed = int(arena.e_process.update(arena.e_process.new_states(1), in_order(unit, said, 1))[0])
    votes = np.array([(each == symbol).sum(axis=1) for symbol in range(arena.symbols)])
    pushed = votes[said, np.arange(len(unit))] - size / arena.symbols
    alone = (each == said[:, None]).mean(axis=0) - 1 / arena.symbols
    together = pushed.mean() / (arena.truth * (votes.max(axis=0) - size / arena.symbols).mean())
    return exposed, float(together), float(alone.max() / (arena.truth * (1 - 1 / arena.symbols)))


def test_a_few_hashed_categories_together_are_moved_as_the_threat_model_says() -> None:
    """Exposed where what is said under each hash is counted; where there are too many hashes for that, the harm that is left."""
    for size in (6, 4):
        assert all(0 < _sharing(domain, size, seed)[0] < 8000 for domain in (16, 200) for seed in range(6))
    many = [_sharing(5000, 6, seed) for seed in range(3)]
    assert all(exposed == -1 for exposed, _, _ in many)
    assert 1.4 < max(together for _, together, _ in many) < 1.55
    assert max(alone for _, _, alone in many) < 0.5
    text = " ".join((ROOT / "THREAT_MODEL.md").read_text(encoding="utf-8").split())
    assert "move all their categories together by 1.8 and 1.5 times that liar" in text


def test_the_bound_is_that_of_the_kernel() -> None:
    text = (ROOT / "gateway" / "kernels" / "capital.h").read_text(encoding="utf-8")
    listed = re.search(r"fractions\[PEEL_E_PROCESS_FRACTIONS\] = \{([^}]*)\}", text)
    assert listed and tuple(float(each) for each in listed[1].split(",")) == FRACTIONS


def test_the_tables_say_what_is_not_exposed_before_what_is(figures: dict[str, Any]) -> None:
    parts = sections(figures)
    assert [part.key for part in parts[:2]] == ["not_exposed", "exposed"]
    for part in parts:
        assert part.rows and all(len(row) == len(part.header) for row in part.rows), part.key
    assert "none was refused" in summary(figures)


def test_the_page_needs_nothing_but_itself(figures: dict[str, Any], folder: Path) -> None:
    text = (folder / "lab.html").read_text(encoding="utf-8")
    assert text == page(json.loads((folder / "lab.json").read_text(encoding="utf-8")))
    assert not re.search(r'(src|href)=(?!"#)|url\(|@import|<script', text)
    assert text.count("<svg") == len(list(folder.glob("*.svg"))) == 6


def test_a_file_that_cannot_be_used_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "words.csv"
    path.write_text("sky\n" + "sun\nrain\n" * 20)
    done = CliRunner().invoke(main, ["lab", "tables", "--quick", "--data", str(path)])
    assert done.exit_code == 2 and "no numeric column can be used" in done.output
