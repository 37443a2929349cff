# SPDX-License-Identifier: MIT
"""Simulated readings: plausible, repeatable, and refused with a reason when a file cannot be used."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peel_core import Profile, load_profile, make_profile
from peel_tools.profiles.dataset import Dataset, DatasetError
from peel_tools.simulation.traces import BuiltInTraces, CsvTraces, Traces, to_q15


def _profile(name: str) -> Profile:
    with as_file(files("peel_tools.simulation") / "profiles") as folder:
        return load_profile(folder / f"{name}.toml")


def _small_profile() -> Profile:
    attributes = [
        {"name": "heat", "kind": "mean", "low": -10, "high": 30},
        {"name": "damp", "kind": "mean", "low": 0, "high": 1},
    ]
    return make_profile(
        {
            "name": "small",
            "epsilon": 1,
            "verify": False,
            "seed": 1,
            "quota": 9,
            "period": 9,
            "attribute": attributes,
        }
    )


def _physical(traces: Traces, devices: np.ndarray[tuple[int], np.dtype[np.int64]], numbers: Any) -> Any:
    return np.stack([traces.values(each, devices, numbers) for each in traces.profile.attributes], axis=1)


DEVICES = np.repeat(np.arange(1, 21), 144)
NUMBERS = np.tile(np.arange(1, 145), 20)


def test_readings_are_a_function_of_seed_device_and_number() -> None:
    profile = _profile("greenhouse")
    first = BuiltInTraces(profile, 7).readings(DEVICES, NUMBERS)
    order = np.random.default_rng(1).permutation(len(DEVICES))
    again = BuiltInTraces(profile, 7).readings(DEVICES[order], NUMBERS[order])
    assert np.array_equal(first[order], again)
    assert not np.array_equal(first, BuiltInTraces(profile, 8).readings(DEVICES, NUMBERS))


def test_readings_stay_in_range_vary_over_the_day_and_differ_between_devices() -> None:
    profile = _profile("greenhouse")
    values = _physical(BuiltInTraces(profile, 7), DEVICES, NUMBERS).reshape(20, 144, profile.k)
    for place, attribute in enumerate(profile.attributes):
        column = values[..., place]
        assert attribute.low <= column.min() < column.max() <= attribute.high
        assert column.mean(axis=1).std() > 0
    temperature = values[..., 0].mean(axis=0)
    afternoon, night = temperature[80:100].mean(), temperature[10:30].mean()  # number n is hour n / 6
    assert afternoon - night > 5


def test_attributes_nobody_has_heard_of_have_a_course_of_their_own() -> None:
    values = _physical(BuiltInTraces(_small_profile(), 7), DEVICES, NUMBERS)
    shares = (values - [-10, 0]) / [40, 1]
    correlation = np.asarray(np.corrcoef(shares.T))[0, 1]
    assert abs(correlation) < 0.99
    assert shares.std(axis=0).min() > 0.01


def test_categories_all_occur_unevenly() -> None:
    profile = _profile("vents")
    counts = np.bincount(BuiltInTraces(profile, 7).readings(DEVICES, NUMBERS)[:, 0], minlength=profile.k)
    assert counts.min() > 0
    assert counts[0] > counts[3]


def test_scaling_clamps() -> None:
    profile = _small_profile()
    scaled = to_q15(profile.attributes[0], profile.questions[0], np.array([-10.0, 10.0, 30.0, 99.0, -40.0]))
    assert scaled.tolist() == [-32768, 0, 32768, 32768, -32768]


def test_all_attributes_of_a_reading_are_about_the_same_value() -> None:
    rows: list[dict[str, object]] = [
        {"name": "heat", "kind": "above", "thresholds": [5, 15]},
        {"name": "heat", "kind": "mean", "low": -10, "high": 30},
        {"name": "heat", "kind": "ladder", "low": -10, "high": 30, "rungs": 3},
        {"name": "rust", "kind": "above", "thresholds": [7]},
    ]
    profile = make_profile(
        {"name": "p", "epsilon": 1, "verify": False, "seed": 1, "quota": 9, "period": 9, "attribute": rows}
    )
    readings = BuiltInTraces(profile, 7).readings(DEVICES, NUMBERS)
    heat = -10 + 40 * (1 + readings[:, 2] / 32768) / 2
    for column, threshold in ((0, 5), (1, 15), (3, 0), (4, 10), (5, 20)):
        clear = np.abs(heat - threshold) > 0.01
        assert np.array_equal(readings[clear, column] > 0, heat[clear] > threshold)
    assert set(readings[:, 6].tolist()) == {-32768, 32768}, "a range around the threshold, as nothing else says one"


def test_csv_columns_are_found_by_name_and_rows_go_round(tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("time,damp,heat\n0,0.25,1\n1,0.5,2\n2,0.75,3\n")
    values = _physical(CsvTraces(_small_profile(), Dataset.read(path), 1), np.full(6, 4), np.arange(1, 7))
    assert sorted(map(tuple, values[:3].tolist())) == [(1, 0.25), (2, 0.5), (3, 0.75)]
    assert np.array_equal(values[:3], values[3:])


def test_csv_with_categories(tmp_path: Path) -> None:
    path = tmp_path / "vents.csv"
    path.write_text("vent\nopen\nclosed\n")
    traces = CsvTraces(_profile("vents"), Dataset.read(path), 1)
    assert set(traces.readings(np.full(4, 1), np.arange(4))[:, 0].tolist()) == {0, 2}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("heat\n1\n", "no column 'damp'; its columns are: heat"),
        ("heat,damp\n1,0\n2,wet\n", "line 3, column damp: 'wet' is not a number"),
        ("heat,damp\n1,nan\n", "line 2, column damp: 'nan' is not a number"),
        ("heat,damp\n1\n2,\n", "column 'damp' has no reading"),
        ("heat,damp\n", "needs a header and at least one row"),
    ],
)
def test_csv_errors_name_the_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "readings.csv"
    path.write_text(text)
    with pytest.raises(DatasetError, match=r"readings\.csv") as error:
        CsvTraces(_small_profile(), Dataset.read(path), 1)
    assert said in str(error.value)


def test_csv_with_an_unknown_category(tmp_path: Path) -> None:
    path = tmp_path / "vents.csv"
    path.write_text("vent\nopen\nburnt\n")
    with pytest.raises(DatasetError, match="line 3, column vent: 'burnt' is not one of the categories closed, tilted"):
        CsvTraces(_profile("vents"), Dataset.read(path), 1)


def test_empty_cells_are_left_out_of_their_column(tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    path.write_text("heat,damp\n1,\n2,0.5\n,0.75\n")
    data = Dataset.read(path)
    assert [data.columns[name].empty for name in ("heat", "damp")] == [1, 1]
    values = _physical(CsvTraces(_small_profile(), data, 1), np.full(4, 4), np.arange(1, 5))
    assert set(values[:, 0]) == {1, 2}
    assert set(values[:, 1]) == {0.5, 0.75}
