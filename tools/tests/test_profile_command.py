# SPDX-License-Identifier: MIT
"""``peel profile`` as a person types it."""

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
    assert shown["likeliest face"] == 0.731059


def test_categories(tmp_path: Path) -> None:
    path = tmp_path / "door.toml"
    peel("new", path, "--categories", "door:open,shut,ajar", "--epsilon", "2")
    loaded = load_profile(path)
    assert (loaded.mechanism, loaded.categories, loaded.width) == ("krr", ("open", "shut", "ajar"), 48)


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "climate.toml"
    path.write_text("mine")
    assert "--force" in peel("new", path, *NUMERIC, code=1)
    assert path.read_text() == "mine"


def test_errors_name_the_key(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    assert "epsilon" in peel("new", path, *NUMERIC, "--epsilon", "17", code=1)
    assert "attribute[0].low" in peel("new", path, "--attribute", "a:5:1", "--attribute", "b:0:1", code=1)
    assert "NAME:LOW:HIGH" in peel("new", path, "--attribute", "a", code=2)
    assert not path.exists()


def test_an_unsound_seed_fails(tmp_path: Path) -> None:
    path = tmp_path / "climate.toml"
    peel("new", path, *NUMERIC, "--width", "8")
    seed = load_profile(path).seed
    path.write_text(path.read_text().replace(f"seed = {seed} ", "seed = 0 "))
    assert load_profile(path).seed == 0
    assert "NOT SOUND" in peel("check", path, code=1)
