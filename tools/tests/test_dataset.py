# SPDX-License-Identifier: MIT
"""CSV data of users: names, usable columns, and the profiles that fit them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from peel_core import load_profile, make_profile, parse_profile, projection
from peel_tools.cli import main
from peel_tools.profiles.dataset import Dataset, DatasetError, attribute_name
from peel_tools.profiles.drafts import propose

ROWS = 40
HEADER = "time,Temp (°C),PM2.5,pm2-5,sky,place,constant,broken,nothing,long"


def _row(i: int) -> str:
    broken = "dead" if i == 7 else str(i % 5)
    return f"{1000 + i},{i % 9 - 3.5},{i % 7},{'' if i % 4 else i % 3},{'sun' if i % 3 else 'rain'},p{i},1,{broken},,{'x' * 40}{i % 2}"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "My data.csv"
    path.write_text("\n".join([HEADER, *map(_row, range(ROWS))]) + "\n")
    return path


def test_names_are_mapped_and_kept_apart(table: Path) -> None:
    columns = Dataset.read(table).columns
    assert list(columns)[:4] == ["time", "temp_c", "pm2_5", "pm2_5_2"]
    assert columns["pm2_5_2"].header == "pm2-5"


@pytest.mark.parametrize(
    ("header", "name"),
    [("Höhe über NN", "hohe_uber_nn"), ("Größe (m²)", "grosse_m2"), ("Durée", "duree"), ("温度", "column")],
)
def test_accents_leave_no_holes(header: str, name: str) -> None:
    assert attribute_name(header) == name


@given(st.text(max_size=60))
def test_every_header_becomes_a_name(header: str) -> None:
    rows = [{"name": attribute_name(header), "low": 0, "high": 1}]
    table = {"name": "a", "mechanism": "harmony", "epsilon": 1, "seed": 1, "quota": 1, "period": 1, "attribute": rows}
    assert make_profile(table).k == 1


def test_profiles_that_suit_the_data(table: Path) -> None:
    found = propose(Dataset.read(table), "mine")
    assert found.numeric is not None
    assert found.categorical is not None
    numeric, categorical = parse_profile(found.numeric.text()), parse_profile(found.categorical.text())
    assert [attribute.name for attribute in numeric.attributes] == ["temp_c", "pm2_5", "pm2_5_2"]
    assert (numeric.attributes[0].low, numeric.attributes[0].high) == (-3.5, 4.5)
    assert categorical.categories == ("rain", "sun")
    for profile in (numeric, categorical):
        assert projection.soundness(profile.seed, profile.width, profile.k).sound
    assert found.empty == {"pm2-5": 30}
    assert found.dropped == {
        "time": "never falls from row to row, like a time or a counter",
        "place": "text with 40 different values in 40 rows",
        "constant": "always the same",
        "broken": "mostly numbers, but line 9 says 'dead'",
        "nothing": "empty",
        "long": "text that is too long for a category",
    }


def test_a_packed_file(table: Path, tmp_path: Path) -> None:
    packed = tmp_path / "data.csv.gz"
    packed.write_bytes(gzip.compress(table.read_bytes()))
    assert list(Dataset.read(packed).columns) == list(Dataset.read(table).columns)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "needs a header"),
        (b"a,b\n", "needs a header"),
        (b"a\n\xff\xfe\n", "not UTF-8 text .*Export it"),
        (b"a,b\n1,2\n3,4,5\n", "line 3 has 3 cells, the header 2"),
        (b'a\n"1\n', "cannot be read"),
    ],
)
def test_what_is_no_table(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=said):
        Dataset.read(path)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_cells_between_whatever_the_header_has(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text(f"\ufeffa{separator}'b, c'\n1.5{separator}2\n\n3{separator}\n".replace("'", '"'), encoding="utf-8")
    columns = Dataset.read(path).columns
    assert list(columns) == ["a", "b_c"]
    assert columns["a"].cells == [(2, "1.5"), (4, "3")]
    assert (columns["b_c"].numbers.tolist(), columns["b_c"].empty) == ([2.0], 1)


def test_decimal_commas(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("t;grouped;english;words\n-19,5;1.234,5;1,234.5;a,b\n20;2.345;12.5;oder\n")
    columns = Dataset.read(path).columns
    assert columns["t"].numbers.tolist() == [-19.5, 20]
    assert columns["grouped"].numbers.tolist() == [1234.5, 2345]
    assert not columns["english"].is_numeric  # either is possible, so neither is guessed
    assert [cell for _, cell in columns["words"].cells] == ["a,b", "oder"]


def test_numbers_that_are_missing(tmp_path: Path) -> None:
    """As R and pandas write them; in a column of words they are words."""
    path = tmp_path / "data.csv"
    path.write_text("a,b,c\n1,NaN,NA\nNA,n/a,DE\n2,NA,DE\n")
    a, b, c = Dataset.read(path).columns.values()
    assert (a.numbers.tolist(), a.empty) == ([1, 2], 1)
    assert not b.is_numeric
    assert [cell for _, cell in c.cells] == ["NA", "DE", "DE"]


@pytest.mark.parametrize("sentinel", ["-999", "-9999", "9999", "999.9", "-999.0", "-99999"])
def test_sentinels_are_missing_readings(tmp_path: Path, sentinel: str) -> None:
    path = tmp_path / "data.csv"
    rows = (f"{sentinel if i % 8 == 3 else 20 + i % 5},{999.9 - i % 30}" for i in range(40))
    path.write_text("\n".join(["temp (°C),pressure_[hPa]", *rows]))
    answer = run("profile", "propose", str(path), "--dir", str(tmp_path), "--json")
    assert json.loads(answer.output)["sentinels"] == {"temp (°C)": {sentinel: 5}}, (
        "a pressure of 999.9 hPa is a reading"
    )
    assert json.loads(answer.output)["empty_cells"] == {}
    temperature, pressure = load_profile(tmp_path / "data.toml").attributes
    assert (temperature.unit, temperature.low, temperature.high) == ("°C", 20, 24)
    assert (pressure.unit, pressure.high) == ("hPa", 1000)
    said = run("profile", "propose", str(path), "--dir", str(tmp_path)).output
    assert f"taken as missing: temp (°C): {sentinel}, 5 times" in said
    assert len(Dataset.read(path).columns["temp_c"].numbers) == 35


@pytest.mark.parametrize(
    ("header", "unit"),
    [
        ("temp (°C)", "°C"),
        ("temp_[C]", "C"),
        ("PM2.5 (µg/m³)", "µg/m³"),
        ("speed [ m/s ] ", "m/s"),
        ("temp", ""),
        ("(raw) value", ""),
        ("flow (a|b)", ""),
        (f"x ({'y' * 40})", ""),
    ],
)
def test_units_come_from_headers(tmp_path: Path, header: str, unit: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text("\n".join([header, "1", "3", "2"]))
    found = propose(Dataset.read(path), "mine")
    assert found.numeric is not None
    assert parse_profile(found.numeric.text()).attributes[0].unit == unit


@pytest.mark.parametrize("date", ["{:02}.01.2024", "2024-01-{:02}", "1/{}/24", "2024-01-{:02}T10:00:00Z"])
def test_dates_are_no_categories(tmp_path: Path, date: str) -> None:
    path = tmp_path / "data.csv"
    rows = (f"{date.format(1 + i % 5)},{'yes' if i % 3 else 'no'}" for i in range(40))
    path.write_text("\n".join(["day,open", *rows]))
    found = propose(Dataset.read(path), "mine")
    assert found.dropped == {"day": "dates"}
    assert found.categorical is not None


def test_ranges_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("tiny,small,epoch\n1e-7,1e-5,1693301400\n3e-7,4e-5,1695301400\n2e-7,3e-5,1694301400\n")
    found = propose(Dataset.read(path), "mine")
    assert found.numeric is not None
    assert "smaller unit" in found.dropped["tiny"]
    small, epoch = parse_profile(found.numeric.text()).attributes
    assert (small.low, small.high) == (1e-5, 4e-5)
    assert (epoch.low, epoch.high) == (1693000000, 1695500000)


def test_a_proposal_that_was_changed_is_not_written_over(table: Path, tmp_path: Path) -> None:
    words = ("profile", "propose", str(table), "--dir", str(tmp_path))
    assert run(*words).exit_code == run(*words).exit_code == 0
    made = tmp_path / "my_data.toml"
    made.write_text(made.read_text().replace("low = -3.5", "low = -40"))
    refused = run(*words)
    assert refused.exit_code == 2
    assert "Overwrite it with --force" in refused.output
    assert "low = -40" in made.read_text()
    assert run(*words, "--force").exit_code == 0
    assert "low = -40" not in made.read_text()


def run(*words: str) -> Any:
    return CliRunner().invoke(main, list(words))


def test_the_command_says_what_it_left_out(table: Path, tmp_path: Path) -> None:
    answer = run("profile", "propose", str(table), "--dir", str(tmp_path), "--json")
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.output)
    assert [load_profile(Path(path)).mechanism for path in found["profiles"]] == ["harmony", "krr"]
    assert "left out: place: text with 40" in run("profile", "propose", str(table), "--dir", str(tmp_path)).output


def test_a_file_without_anything_to_report(tmp_path: Path) -> None:
    path = tmp_path / "constant.csv"
    path.write_text("a\n1\n1\n")
    answer = run("profile", "propose", str(path))
    assert answer.exit_code == 2
    assert "a: always the same" in answer.output
