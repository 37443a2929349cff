# SPDX-License-Identifier: MIT
"""`peel profile`."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from peel_core import load_profile
from peel_tools.cli import main

NUMERIC = ["--mean", "temperature:-40:85:°C", "--mean", "humidity:0:100:%"]
ROOM = [
    "--mean", "temperature:-10:50:°C", "--above", "temperature:26,30", "--ladder", "co2:400:2000:8:ppm",
    "--category", "door:open,shut,ajar", "--hashed", "error:5000",
]  # fmt: skip
LETTERS = "letter:" + ",".join("abcdefghijklmnopqrstuvwxyz")


def peel(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["profile", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_new_check_show(tmp_path: Path) -> None:
    path = tmp_path / "climate.toml"
    peel("new", path, *NUMERIC)
    assert load_profile(path).k == 2
    assert "sound" in peel("check", path)
    shown = json.loads(peel("show", path, "--json"))
    assert shown["id"] == f"{load_profile(path).id:08x}"
    assert shown["attributes"][0]["likeliest_face"] == 0.727273


def test_every_kind_in_one_profile(tmp_path: Path) -> None:
    path = tmp_path / "room.toml"
    assert "13 questions, 38 bytes per report" in peel("new", path, *ROOM)
    loaded = load_profile(path)
    assert [each.kind for each in loaded.attributes] == ["mean", "above", "ladder", "category", "hashed"]
    assert [each.unit for each in loaded.attributes] == ["°C", "°C", "ppm", "", ""]
    assert loaded.attributes[1].thresholds == (26, 30)
    assert len(loaded.attributes[2].thresholds) == 8
    assert "sound" in peel("check", path)


def test_show_lists_kinds_questions_and_the_sum_per_reading(tmp_path: Path) -> None:
    path = tmp_path / "room.toml"
    peel("new", path, *ROOM, "--epsilon", "2")
    shown = json.loads(peel("show", path, "--json"))
    assert [(each["kind"], each["questions"]) for each in shown["attributes"]] == [
        ("mean", 1), ("above", 2), ("ladder", 8), ("category", 1), ("hashed", 1)
    ]  # fmt: skip
    assert [each["odds"] for each in shown["attributes"]] == ["22:3", "22:3", "22:3", "7:1", "7:1"]
    assert [shown["attributes"][place]["odds"] for place in (0, 3, 4)] == [
        f"{block.keep}:{block.change}" for block in load_profile(path).blocks
    ]
    assert shown["attributes"][0]["epsilon"] == pytest.approx(math.log(22 / 3), abs=1e-6)
    temperature = shown["readings"][0]
    assert (temperature["name"], temperature["questions"], temperature["epsilon"]) == ("temperature", 3, 6)
    days = [each["epsilon_per_day"] for each in shown["readings"]]
    assert sum(days) == pytest.approx(shown["epsilon_per_day"], abs=0.01)
    said = peel("show", path)
    assert "temperature: 3 questions, epsilon 6 when each was answered once" in said
    assert "door: category: open, shut, ajar: 1 question, 8% of reports, odds 7:1, epsilon 1.946" in said


def test_a_new_profile_says_what_its_odds_cost(tmp_path: Path) -> None:
    said = peel("new", tmp_path / "one.toml", "--mean", "t:0:1", "--epsilon", "1")
    assert "odds 8:3 for 2 outcomes: epsilon 0.981, variance +4.3% against epsilon 1" in said


def test_an_epsilon_without_odds_names_the_nearest(tmp_path: Path) -> None:
    answer = CliRunner().invoke(
        main, ["profile", "new", str(tmp_path / "p.toml"), "--mean", "t:0:1", "--epsilon", "0.001", "--no-verify"]
    )
    assert answer.exit_code != 0
    assert "epsilon: 0.000999451 has no odds" in answer.output
    assert "use 0.01, the nearest that has" in answer.output


def test_weights_say_how_often_an_attribute_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    peel("new", path, "--mean", "a:0:1:m@3", "--mean", "b:0:1", "--category", "door:open,shut@2")
    assert [each.weight for each in load_profile(path).attributes] == [3, 1, 2]
    assert load_profile(path).attributes[2].categories == ("open", "shut")
    shown = json.loads(peel("show", path, "--json"))
    assert shown["attributes"][0]["share_of_reports"] == 0.5


def test_rungs_can_be_listed(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    peel("new", path, "--ladder", "co2:400:2000:500,800,1200:ppm")
    assert load_profile(path).attributes[0].thresholds == (500, 800, 1200)


def test_few_categories_are_compared_with_hashing(tmp_path: Path) -> None:
    said = peel("new", tmp_path / "p.toml", "--category", "letter:" + ",".join("abcdefghij"))
    assert "letter: category: a rare category's share has variance 3.84 / reports (hashed: 3.92)" in said
    assert "counts for 7.0 honest ones (hashed: 2.8)" in said


def test_many_categories_are_hashed(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    assert 'use kind = "hashed"' in peel("new", path, "--category", LETTERS, code=2)
    said = peel("new", path, "--hashed", LETTERS)
    assert (load_profile(path).k, load_profile(path).size) == (3, 26)
    assert "letter: hashed: a rare category's share has variance 3.92 / reports (category: 9.6)" in said
    assert "counts for 2.8 honest ones (category: 16.6)" in said
    assert "sound" in peel("check", path)


def test_a_category_can_be_forced_where_hashing_is_better(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    peel("new", path, "--category", LETTERS, "--force-category", "--no-verify")
    assert load_profile(path).attributes[0].kind == "category"
    path.write_text(path.read_text().replace("force_category = true", ""))
    assert "16.6 honest ones instead of 2.8" in peel("check", path, code=2)


def test_many_categories_need_no_names(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    assert "takes at most 1024 categories" in peel("new", path, "--hashed", "room:65535", "--epsilon", "2")
    shown = json.loads(peel("show", path, "--json"))
    assert (shown["attributes"][0]["domain"], shown["symbols"], shown["frame_bytes"]) == (65535, 7, 38)
    assert "room: hashed: 65,535 categories" in peel("show", path)


def test_one_attribute_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "thermometer.toml"
    peel("new", path, "--mean", "temperature:-40:85:°C")
    assert load_profile(path).k == 1
    assert "sound" in peel("check", path)


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "climate.toml"
    path.write_text("mine")
    assert "--force" in peel("new", path, *NUMERIC, code=2)
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "give at least one of --mean, --above"),
        ("--mean a:0:1 --epsilon 17", "at most 6, got '17'"),
        ("--mean a:0:1 --epsilon much", "got 'much'"),
        ("--mean a:5:1 --mean b:0:1", "attribute[0].low: 5 is not below high = 1"),
        ("--mean a", "'a': write NAME:LOW:HIGH[:UNIT]"),
        ("--mean a:low:1", "'a:low:1': write NAME:LOW:HIGH[:UNIT]"),
        ("--mean a:nan:1", "'a:nan:1': write NAME:LOW:HIGH[:UNIT]"),
        (
            "--mean t:0:10 --above t:12",
            "attribute[1].thresholds: 12 must lie inside the range 0 to 10. Move it, or widen the range.",
        ),
        ("--above t:30,26", "attribute[0].thresholds: 26 must be above 30. List them in ascending order"),
        ("--above t:hot", "'t:hot': write NAME:T1,T2[:UNIT]"),
        ("--ladder c:0:10:5,3,8", "attribute[0].rungs: 3 must be above 5. List them in ascending order, each once."),
        ("--ladder c:0:10:5,30", "attribute[0].rungs: 30 must lie inside the range 0 to 10"),
        ("--ladder c:0:10:65", "attribute[0].rungs: must be a whole number from 2 to 64, not 65"),
        ("--ladder c:0:10:few", "'c:0:10:few': write NAME:LOW:HIGH:RUNGS[:UNIT]"),
        ("--mean a:0:1 --mean a:0:2", "'a (mean)' appears twice. Rename one, or remove it."),
        ("--mean a:0:1 --category a:x,y", "'a' is a number in one attribute and a category in another"),
        ("--mean a:0:1:m --above a:0.5:cm", "are both units of a"),
        ("--category door:open,open", "'open' appears twice"),
        ("--category door:open", "must have 2 to 1024 categories, got 1"),
        ("--category door", "'door': write NAME:A,B,C"),
        ("--hashed room", "write NAME:COUNT or NAME:A,B,C"),
        ("--hashed room:many", "write NAME:COUNT or NAME:A,B,C"),
        ("--hashed room:65536", "from 2 to 65535, not 65536"),
        ("--mean a:0:1@0", "attribute[0].weight: must be a whole number from 1 to 16, not 0"),
        ("--mean a:0:1@17", "from 1 to 16, not 17"),
        ("--mean a:0:1@1.5", "from 1 to 16, not 1.5"),
        ("--mean a:0:1 --width 1", "must be a whole number from 2 to 1024, not 1"),
        (
            "--ladder c:0:10:40 --ladder d:0:10:40 --width 48",
            "must be at least the number of symbols, 80, got 48. Raise it, or leave it out.",
        ),
    ],
)
def test_bad_input_is_named(tmp_path: Path, options: str, said: str) -> None:
    path = tmp_path / "p.toml"
    assert said in " ".join(peel("new", path, *options.split(), code=2).split())
    assert not path.exists()


def test_too_many_symbols_are_refused(tmp_path: Path) -> None:
    many = [word for i in range(17) for word in ("--ladder", f"c{i}:0:100:64")]
    assert "1088 symbols, more than 1024. Use fewer attributes" in peel("new", tmp_path / "p.toml", *many, code=2)


def test_an_unsound_seed_fails(tmp_path: Path) -> None:
    path = tmp_path / "climate.toml"
    peel("new", path, *NUMERIC, "--width", "8")
    seed = load_profile(path).seed
    path.write_text(path.read_text().replace(f"seed = {seed} ", "seed = 0 "))
    assert load_profile(path).seed == 0
    assert "NOT SOUND" in peel("check", path, code=1)
