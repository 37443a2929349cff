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
from peel_tools.profiles.dataset import Dataset, DatasetError, attribute_name, name_and_unit
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
    assert list(columns)[:4] == ["time", "temp", "pm2_5", "pm2_5_2"]
    assert columns["pm2_5_2"].header == "pm2-5"


@pytest.mark.parametrize(
    ("header", "name"),
    [("Höhe über NN", "hohe_uber_nn"), ("Größe (m²)", "grosse_m2"), ("Durée", "duree"), ("温度", "column")],
)
def test_accents_leave_no_holes(header: str, name: str) -> None:
    assert attribute_name(header) == name


@given(
    st.text(max_size=60)
    | st.builds("{} {}".format, st.text(max_size=60), st.text("()[]%°Cµ\u03bc/m³\u017fK", max_size=8))
)
def test_every_header_becomes_a_name(header: str) -> None:
    name, unit = name_and_unit(header)
    rows = [{"name": attribute_name(name), "kind": "mean", "unit": unit, "low": 0, "high": 1}]
    table = {"name": "a", "epsilon": 1, "verify": False, "seed": 1, "quota": 1, "period": 1, "attribute": rows}
    assert make_profile(table).k == 1


def test_a_profile_that_suits_the_data(table: Path) -> None:
    found = propose(Dataset.read(table), "mine")
    profile = parse_profile(found.draft.text())
    kinds = [(attribute.name, attribute.kind) for attribute in profile.attributes]
    assert kinds == [("temp", "mean"), ("pm2_5", "mean"), ("pm2_5_2", "mean"), ("sky", "category")]
    assert (profile.attributes[0].low, profile.attributes[0].high) == (-3.5, 4.5)
    assert profile.attributes[3].categories == ("rain", "sun")
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


@pytest.mark.parametrize("sentinel", ["-999", "-9999.0", "-99.9"])
@pytest.mark.parametrize("others", [20, 1], ids=["among many", "beside one"])
def test_one_sentinel_below_all_readings_is_missing(tmp_path: Path, sentinel: str, others: int) -> None:
    path = tmp_path / "logger.csv"
    path.write_text("\n".join(["temp_C", *(str(20 + i % 5) for i in range(others)), sentinel]))
    column = Dataset.read(path).column("temp")
    assert column.missing == {sentinel: 1} and column.empty == 1
    assert column.numbers.min() == 20


def test_one_number_above_all_readings_may_be_a_peak(tmp_path: Path) -> None:
    path = tmp_path / "logger.csv"
    path.write_text("\n".join(["power_w", *(str(20 + i % 5) for i in range(20)), "999"]))
    assert Dataset.read(path).column("power_w").numbers.max() == 999


def test_a_reading_below_zero_near_the_others_is_no_sentinel(tmp_path: Path) -> None:
    path = tmp_path / "logger.csv"
    path.write_text("\n".join(["height", "-1500", "-300", "-999", "200"]))
    assert not Dataset.read(path).column("height").missing


@pytest.mark.parametrize("sentinel", ["-999", "-9999", "9999", "999.9", "-999.0", "-99999"])
def test_sentinels_are_missing_readings(tmp_path: Path, sentinel: str) -> None:
    path = tmp_path / "data.csv"
    rows = (f"{sentinel if i % 8 == 3 else 20 + i % 5},{999.9 - i % 30}" for i in range(40))
    path.write_text("\n".join(["temp (°C),pressure_[hPa]", *rows]))
    answer = run("profile", "propose", str(path), "--dir", str(tmp_path), "--json")
    assert json.loads(answer.output)["missing_cells"] == {
        "temp (°C)": [{"cell": sentinel, "count": 5, "reason": "far outside its other readings, 20 to 24"}]
    }, "a pressure of 999.9 hPa is a reading"
    assert json.loads(answer.output)["empty_cells"] == {}
    temperature, pressure = load_profile(tmp_path / "data.toml").attributes
    assert (temperature.unit, temperature.low, temperature.high) == ("°C", 20, 24)
    assert (pressure.unit, pressure.high) == ("hPa", 1000)
    said = run("profile", "propose", str(path), "--dir", str(tmp_path)).output
    assert f"taken as missing: temp (°C): {sentinel} in 5 cells, far outside its other readings, 20 to 24" in said
    assert len(Dataset.read(path).columns["temp"].numbers) == 35


OFFICE = """\
Time,Temperature (°C),Temperature (°F),CO2_ppm,humidity %,Fan [rpm],Note (indoor),Window
2024-05-01 10:00,21.4,70.5,612,41,-999,1,open
2024-05-01 10:10,21.6,70.9,-9999,NaN,900,2,open
2024-05-01 10:20,-99.9,-99.9,655,43,950,1,shut
2024-05-01 10:30,21.9,71.4,-9999.0,nan,870,3,shut
2024-05-01 10:40,-99.9,-99.9,701,unavailable,910,2,open
2024-05-01 10:50,21.2,70.2,688,,880,1,open
2024-05-01 11:00,21.1,70.0,640,40,905,2,shut
2024-05-01 11:10,21.3,70.3,633,42,915,1,shut
2024-05-01 11:20,21.5,70.7,629,44,899,3,open
2024-05-01 11:30,21.7,71.1,640,39,890,2,open
"""


def test_an_export_with_units_and_gaps(tmp_path: Path) -> None:
    path = tmp_path / "office.csv"
    path.write_text(OFFICE)
    answer = json.loads(run("profile", "propose", str(path), "--dir", str(tmp_path), "--json").output)
    office = load_profile(tmp_path / "office.toml")
    numbers = [each for each in office.attributes if each.kind == "mean"]
    assert [each.name for each in office.attributes[len(numbers) :]] == ["window"]
    assert [(each.name, each.unit, each.low, each.high) for each in numbers] == [
        ("temperature", "°C", 21.1, 21.9),
        ("temperature_f", "°F", 70, 71.5),
        ("co2", "ppm", 610, 705),
        ("humidity", "%", 39, 44),
        ("fan", "rpm", 870, 950),
        ("note_indoor", "", 1, 3),
    ]
    assert answer["empty_cells"] == {"humidity %": 1}
    missing = {
        header: {each["cell"]: (each["count"], each["reason"]) for each in found}
        for header, found in answer["missing_cells"].items()
    }
    assert missing == {
        "Temperature (°C)": {"-99.9": (2, "far outside its other readings, 21.1 to 21.9")},
        "Temperature (°F)": {"-99.9": (2, "far outside its other readings, 70 to 71.4")},
        "CO2_ppm": dict.fromkeys(("-9999", "-9999.0"), (1, "far outside its other readings, 612 to 701")),
        "humidity %": dict.fromkeys(("NaN", "nan", "unavailable"), (1, "not a number")),
        "Fan [rpm]": {"-999": (1, "far outside its other readings, 870 to 950")},
    }
    said = run("profile", "propose", str(path), "--dir", str(tmp_path)).output
    assert "taken as missing: humidity %: NaN in 1 cell, not a number" in said


@pytest.mark.parametrize(
    ("header", "name", "unit"),
    [
        ("temp (°C)", "temp", "°C"),
        ("temp_[C]", "temp", "°C"),
        ("temp_C", "temp", "°C"),
        ("Air Temp F", "air_temp", "°F"),
        ("soil_temperature_k", "soil_temperature", "K"),
        ("dew_point_c", "dew_point", "°C"),
        ("T_C", "t", "°C"),
        ("vitamin_c", "vitamin_c", ""),
        ("set_k", "set_k", ""),
        ("Temp.degC", "temp_degc", ""),
        ("Temp degC", "temp", "°C"),
        ("Temperatur / °C", "temperatur", "°C"),
        ("PM2.5 (µg/m³)", "pm2_5", "µg/m³"),
        ("PM2.5_μg/m³", "pm2_5", "µg/m³"),
        ("pm10 (ug/m3)", "pm10", "µg/m³"),
        ("speed [ m/s ] ", "speed", "m/s"),
        ("power (kW)", "power", "kW"),
        ("flow (l/min)", "flow", "l/min"),
        ("CO2_ppm", "co2", "ppm"),
        ("humidity %", "humidity", "%"),
        ("RH%", "rh", "%"),
        ("rh pct", "rh", "%"),
        ("energy, kwh", "energy", "kWh"),
        ("temp", "temp", ""),
        ("temp (indoor)", "temp_indoor", ""),
        ("temp (min)", "temp_min", ""),
        ("phase_a", "phase_a", ""),
        ("ppm", "ppm", ""),
        ("(raw) value", "raw_value", ""),
        ("flow (a|b)", "flow_a_b", ""),
    ],
)
def test_units_come_from_headers(tmp_path: Path, header: str, name: str, unit: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text("\n".join([f'"{header}"', "1", "3", "2"]))
    found = propose(Dataset.read(path), "mine")
    (attribute,) = parse_profile(found.draft.text()).attributes
    assert (attribute.name, attribute.unit) == (name, unit)


@pytest.mark.parametrize("date", ["{:02}.01.2024", "2024-01-{:02}", "1/{}/24", "2024-01-{:02}T10:00:00Z"])
def test_dates_are_no_categories(tmp_path: Path, date: str) -> None:
    path = tmp_path / "data.csv"
    rows = (f"{date.format(1 + i % 5)},{'yes' if i % 3 else 'no'}" for i in range(40))
    path.write_text("\n".join(["day,open", *rows]))
    found = propose(Dataset.read(path), "mine")
    assert found.dropped == {"day": "dates"}
    assert [row["name"] for row in found.draft.attributes] == ["open"]


def test_many_categories_are_hashed_and_each_column_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["door,room", *(f"{'open' if i % 3 else 'shut'},r{i % 30:02}" for i in range(300))]))
    made = parse_profile(propose(Dataset.read(path), "mine").draft.text())
    assert [(each.name, each.kind, each.domain) for each in made.attributes] == [
        ("door", "category", 2),
        ("room", "hashed", 30),
    ]


def test_ranges_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("tiny,small,epoch\n1e-7,1e-5,1693301400\n3e-7,4e-5,1695301400\n2e-7,3e-5,1694301400\n")
    found = propose(Dataset.read(path), "mine")
    assert "smaller unit" in found.dropped["tiny"]
    small, epoch = parse_profile(found.draft.text()).attributes
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
    assert [each.kind for each in load_profile(Path(found["profile"])).attributes] == ["mean"] * 3 + ["category"]
    assert "left out: place: text with 40" in run("profile", "propose", str(table), "--dir", str(tmp_path)).output


def test_a_file_without_anything_to_report(tmp_path: Path) -> None:
    path = tmp_path / "constant.csv"
    path.write_text("a\n1\n1\n")
    answer = run("profile", "propose", str(path))
    assert answer.exit_code == 2
    assert "a: always the same" in answer.output
