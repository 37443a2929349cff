# SPDX-License-Identifier: MIT
"""`peel plan`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from peel_core import load_profile
from peel_core.profile import even_interval
from peel_tools.cli import main
from peel_tools.planning.report import Battery, quota_for, spoken


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["plan", *arguments])


def planned(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_everything_follows() -> None:
    found = planned("--devices", "200", "--attributes", "4", "--every", "15m", "--epsilon", "1", "--battery", "2000")
    assert found["privacy"]["day"] == {"reports": 96, "epsilon": 96, "epsilon_at_delta": 95.9}
    assert found["bytes"]["frame"] == 38
    assert found["accuracy"]["until"][1]["half_width"] == 0.05
    first, always, *_ = found["exposure"]
    assert first["reports"] == 1
    assert "target" in first["attack"]
    assert 40 < always["reports"] < 90
    assert always["hours"] == pytest.approx(always["reports"] / 4, rel=0.01)
    assert found["insider"]["ratio"]["cap"] > found["insider"]["ratio"]["1000"] > found["insider"]["ratio"]["10000"] > 1
    assert found["battery_days"] > 0


@pytest.mark.slow
def test_half_of_many_categories_is_said_not_to_be_exposed() -> None:
    found = planned("--categories", "5000")
    assert found["exposure"][-1] == {"attack": "any of half of the categories", "reports": None, "hours": None}
    assert "not seen" in run("--categories", "5000").output


def test_a_profile_says_what_is_not_given(tmp_path: Path) -> None:
    path = tmp_path / "climate.toml"
    assert CliRunner().invoke(main, ["profile", "new", str(path), "--mean", "t:0:1"]).exit_code == 0
    found = planned("--profile", str(path), "--devices", "50")
    assert found["task"]["assumed"] == []
    assert found["task"]["epsilon"] == 1
    assert found["task"]["interval_s"] == pytest.approx(load_profile(path).interval_s)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--every", "soon"], "15m"),
        (["--accuracy", "much"], "5%"),
        (["--devices", "2", "--every", "1h", "--accuracy", "1%"], "no epsilon gives"),
        (["--profile", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_what_cannot_be_planned_is_said(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code != 0
    assert said in result.output


def test_a_battery() -> None:
    assert Battery(2400, awake_ma=100, awake_s=36, asleep_ma=0).days(3600) == pytest.approx(100)
    assert Battery(2400, awake_ma=100, awake_s=36, asleep_ma=100).days(3600) == pytest.approx(1)


@pytest.mark.parametrize(
    ("hours", "said"),
    [(None, "never seen"), (0.001, "4 s"), (0.5, "30 minutes"), (30, "30 hours"), (24 * 800, "2.2 years")],
)
def test_times_are_spoken(hours: float | None, said: str) -> None:
    assert spoken(hours) == said


def test_a_new_profile_comes_with_advice(tmp_path: Path) -> None:
    arguments = ["profile", "new", str(tmp_path / "hot.toml"), "--mean", "t:0:1", "--epsilon", "5", "--no-verify"]
    assert "4 is enough" in CliRunner().invoke(main, arguments).output
    calm = ["profile", "new", str(tmp_path / "calm.toml"), "--mean", "t:0:1", "--quota", "24", "--period", "86400"]
    assert "advice" not in CliRunner().invoke(main, calm).output


def typed(command: list[str], folder: Path) -> Any:
    """Type a planned command in a folder; return the profile that it makes."""
    _, *words = shlex.split(" ".join(command))
    path = folder / words[2]
    answer = CliRunner().invoke(main, [*words[:2], str(path), *words[3:]])
    assert answer.exit_code == 0, answer.output
    return load_profile(path)


@pytest.mark.slow
def test_the_printed_command_makes_the_planned_profile(tmp_path: Path) -> None:
    options = [
        "--mean", "temperature:-10:50:°C@3", "--above", "temperature:26,30", "--ladder", "co2:400:2000:8:ppm",
        "--category", "door:open,shut,ajar", "--hashed", "error:5000", "--epsilon", "1.3",
    ]  # fmt: skip
    path = tmp_path / "room.toml"
    assert CliRunner().invoke(main, ["profile", "new", str(path), *options, "--lifetime", "9000"]).exit_code == 0
    (tmp_path / "again").mkdir()
    again = typed(planned("--profile", str(path))["command"], tmp_path / "again")
    assert again == load_profile(path)
    found = planned(*options, "--every", "15m", "--devices", "50")
    made = typed(found["command"], tmp_path)
    assert (made.attributes, made.epsilon_q20) == (again.attributes, again.epsilon_q20)
    assert 800 < made.interval_s <= 900
    assert found["task"]["questions"] == 13


MIXED = [
    "--mean", "temperature:-10:50:°C", "--above", "temperature:26,30", "--ladder", "co2:400:2000:4:ppm@2",
    "--category", "door:open,shut,ajar@4",
]  # fmt: skip


def test_a_mixed_plan_says_how_wide_each_interval_will_be() -> None:
    found = planned(*MIXED, "--devices", "200", "--every", "15m", "--within", "4d")
    rows = {(row["name"], row["kind"]): row for row in found["accuracy"]["attributes"]}
    assert found["accuracy"]["within_s"] == 4 * 86_400
    mean, door = rows["temperature", "mean"], rows["door", "category"]
    assert mean["in_unit"] == pytest.approx(60 * mean["half_width"], rel=0.01) and mean["unit"] == "°C"
    assert door["in_unit"] is None and door["reports"] == pytest.approx(4 / 15, rel=0.01)
    # A threshold costs as much as a mean of the same weight. Twice the weight makes intervals narrower by the root of 2.
    assert rows["temperature", "above"]["half_width"] == mean["half_width"]
    assert rows["co2", "ladder"]["half_width"] == pytest.approx(mean["half_width"] / 2**0.5, rel=0.01)
    assert found["accuracy"]["half_width"]["day"] == pytest.approx(2 * mean["half_width"], rel=0.01)


def test_a_mixed_plan_counts_the_questions_about_each_reading() -> None:
    found = planned(*MIXED)
    assert found["task"]["readings"] == [
        {"name": "temperature", "questions": 3}, {"name": "co2", "questions": 4}, {"name": "door", "questions": 1},
    ]  # fmt: skip
    text = " ".join(run(*MIXED).output.split())
    assert "(those of its attributes add up): temperature 3, co2 4; 1 about any other" in text
    assert "temperature (mean)" in text and "--category door:open,shut,ajar@4" in text


def test_a_mixed_plan_plays_each_block_of_questions_by_itself() -> None:
    attacks = [row["attack"] for row in planned(*MIXED)["exposure"]]
    for name in ("temperature: always plus", "co2: always plus", "door: always the same category"):
        assert name in attacks


@pytest.mark.parametrize("interval", [0.001, 0.5, 7, 900, 86_400, 40 * 86_400])
def test_a_quota_allows_the_interval_and_little_more(interval: float) -> None:
    quota, period = quota_for(interval)
    assert interval / 1.3 < even_interval(quota, period) <= interval


def test_a_profile_and_attributes_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    CliRunner().invoke(main, ["profile", "new", str(path), "--mean", "t:0:1"])
    assert "exclude each other" in run("--profile", str(path), "--mean", "t:0:1").output
    assert "exclude each other" in run("--attributes", "3", "--mean", "t:0:1").output


def test_it_fits_into_eighty_columns() -> None:
    text = run(
        "--devices", "1000000", "--attributes", "30", "--every", "15m", "--epsilon", "1", "--accuracy", "5%"
    ).output
    assert max(map(len, text.splitlines())) <= 80
    assert "  ±5% " in text
    assert "  1 report " in text


def test_one_is_said_in_the_singular() -> None:
    assert run("--devices", "1", "--attributes", "1", "--every", "1h").output.startswith(
        "1 device, 1 attribute, 1 question, "
    )
