# SPDX-License-Identifier: MIT
"""`peel profile`."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from peel_core import load_profile
from peel_tools.cli import main

NUMERIC = ["--attribute", "temperature:-40:85:°C", "--attribute", "humidity:0:100:%"]


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
    assert shown["likeliest_face"] == 0.731059


def test_categories(tmp_path: Path) -> None:
    path = tmp_path / "door.toml"
    peel("new", path, "--categories", "door:open,shut,ajar", "--epsilon", "2")
    loaded = load_profile(path)
    assert (loaded.mechanism, loaded.categories, loaded.width) == ("krr", ("open", "shut", "ajar"), 48)


def test_few_categories_are_counted_by_krr_and_it_says_why(tmp_path: Path) -> None:
    said = peel("new", tmp_path / "p.toml", "--categories", "letter:" + ",".join("abcdefghij"))
    assert load_profile(tmp_path / "p.toml").mechanism == "krr"
    assert "krr: a rare category's share has variance 3.63 / reports (hashing: 3.77)" in said
    assert "counts for 6.8 honest ones (hashing: 2.7)" in said


def test_many_categories_are_hashed_and_it_says_why(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    letters = "letter:" + ",".join("abcdefghijklmnopqrstuvwxyz")
    said = peel("new", path, "--categories", letters)
    assert (load_profile(path).mechanism, load_profile(path).k, load_profile(path).domain) == ("hashing", 3, 26)
    assert "hashing: a rare category's share has variance 3.77 / reports (kRR: 9.05)" in said
    assert "counts for 2.7 honest ones (kRR: 16.1)" in said
    assert "sound" in peel("check", path)


def test_krr_can_be_forced_where_hashing_is_better(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    peel("new", path, "--categories", "letter:" + ",".join("abcdefghijklmnopqrstuvwxyz"), "--force-krr")
    assert load_profile(path).mechanism == "krr"
    path.write_text(path.read_text().replace("force_krr = true", ""))
    assert "16.1 honest ones instead of 2.7" in peel("check", path, code=2)


def test_a_domain_needs_no_names(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    assert "kRR takes at most 1024 categories" in peel("new", path, "--domain", "room:65535", "--epsilon", "2")
    shown = json.loads(peel("show", path, "--json"))
    assert (shown["categories"], shown["symbols"], shown["frame_bytes"]) == (65535, 7, 38)
    assert "NAME:COUNT" in peel("new", tmp_path / "q.toml", "--domain", "room", code=2)
    assert "NAME:COUNT" in peel("new", tmp_path / "q.toml", "--domain", "room:many", code=2)
    assert "65535" in peel("new", tmp_path / "q.toml", "--domain", "room:65536", code=2)
    assert "--force-krr" in peel("new", tmp_path / "q.toml", "--domain", "room:5", "--force-krr", code=2)


def test_one_attribute_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "thermometer.toml"
    peel("new", path, "--attribute", "temperature:-40:85:°C")
    assert load_profile(path).k == 1
    assert "sound" in peel("check", path)


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "climate.toml"
    path.write_text("mine")
    assert "--force" in peel("new", path, *NUMERIC, code=2)
    assert path.read_text() == "mine"


def test_errors_name_the_key(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    assert "epsilon" in peel("new", path, *NUMERIC, "--epsilon", "17", code=2)
    assert "attribute[0].low" in peel("new", path, "--attribute", "a:5:1", "--attribute", "b:0:1", code=2)
    assert "NAME:LOW:HIGH" in peel("new", path, "--attribute", "a", code=2)
    assert not path.exists()


def test_an_unsound_seed_fails(tmp_path: Path) -> None:
    path = tmp_path / "climate.toml"
    peel("new", path, *NUMERIC, "--width", "8")
    seed = load_profile(path).seed
    path.write_text(path.read_text().replace(f"seed = {seed} ", "seed = 0 "))
    assert load_profile(path).seed == 0
    assert "NOT SOUND" in peel("check", path, code=1)
