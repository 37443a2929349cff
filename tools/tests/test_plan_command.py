# SPDX-License-Identifier: MIT
"""`peel plan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from peel_core import load_profile
from peel_tools.cli import main
from peel_tools.planning.report import Battery, spoken


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
    assert CliRunner().invoke(main, ["profile", "new", str(path), "--attribute", "t:0:1"]).exit_code == 0
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
    arguments = ["profile", "new", str(tmp_path / "hot.toml"), "--attribute", "t:0:1", "--epsilon", "8"]
    assert "4 is enough" in CliRunner().invoke(main, arguments).output
    calm = ["profile", "new", str(tmp_path / "calm.toml"), "--attribute", "t:0:1", "--quota", "24", "--period", "86400"]
    assert "advice" not in CliRunner().invoke(main, calm).output


def test_it_fits_into_eighty_columns() -> None:
    text = run(
        "--devices", "1000000", "--attributes", "30", "--every", "15m", "--epsilon", "1", "--accuracy", "5%"
    ).output
    assert max(map(len, text.splitlines())) <= 80
    assert "  ±5% " in text
    assert "  1 report " in text


def test_one_is_said_in_the_singular() -> None:
    assert run("--devices", "1", "--attributes", "1", "--every", "1h").output.startswith(
        "1 device, 1 attribute (harmony), "
    )
