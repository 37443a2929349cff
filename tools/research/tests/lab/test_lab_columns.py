# SPDX-License-Identifier: MIT
"""The lab leaves out clocks, identifiers and places, and explains odd files."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from peel_research.lab.columns import MOST_COLUMNS
from peel_research.lab.data import load_data
from peel_tools.cli import main
from peel_tools.profiles.dataset import DatasetError

DRAW = random.Random(3)


def _write(path: Path, header: str, rows: Sequence[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def _station(i: int) -> str:
    """30 stations in turn; each hour all of them report."""
    station, hour = i % 30, i // 30
    epoch = 1_700_000_000 + 3600 * hour + DRAW.randrange(300)
    warmth = 20 + 5 * np.sin(i) + DRAW.random()
    return f"town{station},{station * 37 % 30},{-60 + 4.5 * station},{epoch},{7919 * i % 6007},{warmth:.2f},{hour % 9}"


@pytest.fixture
def stations(tmp_path: Path) -> Path:
    header = "place,station,latitude,seen_at,reading_no,warmth,index"
    return _write(tmp_path / "stations.csv", header, [_station(i) for i in range(900)])


def test_clocks_identifiers_and_places_are_no_readings(stations: Path) -> None:
    data = load_data(stations)
    assert data.names == ("warmth", "index")
    assert "the same whenever place is the same" in data.dropped["station"]
    assert "the same whenever place is the same" in data.dropped["latitude"]
    assert "like a time or a counter" in data.dropped["seen_at"], "although it falls from row to row now and then"
    assert "like an identifier" in data.dropped["reading_no"]


def test_columns_can_be_chosen_whatever_they_seem_to_be(stations: Path) -> None:
    data = load_data(stations, ["latitude", "warmth"])
    assert data.names == ("latitude", "warmth")
    assert data.dropped["index"] == "not chosen" and "latitude" not in data.dropped


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("warmth,colour", "no column 'colour'; its columns are: place"),
        ("place", "'place' has no mean worth knowing: it is text"),
    ],
)
def test_a_choice_that_cannot_be_made_is_explained(stations: Path, columns: str, message: str) -> None:
    done = CliRunner().invoke(main, ["lab", "tables", "--quick", "--data", str(stations), "--columns", columns])
    assert done.exit_code == 2 and message in done.output


def test_columns_without_a_file_are_refused() -> None:
    done = CliRunner().invoke(main, ["lab", "tables", "--quick", "--columns", "warmth"])
    assert done.exit_code == 2 and "columns are those of a file" in done.output


# ---- odd files ----


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        ("sky,town", ["sun,a", "rain,b"] * 20, "all of it is text"),
        ("a,b", ["1,2"] * 50, "a: always the same; b: always the same"),
        ("a,b", ["1,2"], "a: always the same"),
        ("a", [str(DRAW.random() * 1e-310) for _ in range(60)], "differ by a few millionths at most"),
        ("a", [str(DRAW.choice([-1.7e308, 0, 1.7e308])) for _ in range(60)], "further apart than can be counted with"),
        ("a,b", [], "needs a header and at least one row"),
        (
            "abcdefghijklmno".replace("", ",").strip(","),
            [",".join("" if (i + j) % 15 == 0 else str(DRAW.random()) for j in range(15)) for i in range(30)],
            "no row has a number in all 15 columns",
        ),
    ],
    ids=["text", "constants", "one row", "tiny", "far apart", "no row", "a hole in every row"],
)
def test_a_file_of_no_use_is_explained(tmp_path: Path, header: str, rows: list[str], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        load_data(_write(tmp_path / "odd.csv", header, rows))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("header", "rows", "names"),
    [
        ("a,b", ["1.5,3", "2.5,1", "0.5,2"], ("a", "b")),
        ("a", [str(DRAW.gauss(20, 3)) for _ in range(60)], ("a",)),
        ("a,b", [f"{DRAW.choice([-8e307, 0, 8e307])},{DRAW.random() * 1e300}" for _ in range(60)], ("a", "b")),
        ("a,b", [f"{'nan' if i % 9 == 0 else DRAW.random()},{DRAW.random()}" for i in range(60)], ("b",)),
        ("a,b", [f"{'inf' if i == 9 else DRAW.random()},{DRAW.random()}" for i in range(60)], ("b",)),
    ],
    ids=["three rows", "one column", "huge", "nan", "inf"],
)
def test_an_odd_file_is_used_as_far_as_it_goes(
    tmp_path: Path, header: str, rows: list[str], names: tuple[str, ...]
) -> None:
    data = load_data(_write(tmp_path / "odd.csv", header, rows))
    assert data.names == names
    assert np.isfinite(data.values).all() and np.abs(data.values).max() == 1


@pytest.mark.slow
def test_of_very_many_columns_the_first_are_taken(tmp_path: Path) -> None:
    rows = [",".join(f"{DRAW.random():.3f}" for _ in range(200)) for _ in range(60)]
    data = load_data(_write(tmp_path / "wide.csv", ",".join(f"c{i}" for i in range(200)), rows))
    assert data.k == MOST_COLUMNS and "--columns" in data.dropped[f"c{MOST_COLUMNS}"]
