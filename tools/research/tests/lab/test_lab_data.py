# SPDX-License-Identifier: MIT
"""The lab reads a CSV file: it scales the columns that it uses, and names the others with the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from peel_research.lab.data import load_data
from peel_tools.profiles.dataset import DatasetError


def _write(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def _row(i: int) -> str:
    celsius = i % 21
    return f"{celsius},{1.8 * celsius + 32:.1f},{1000 if i == 7 else 1},{'' if i == 3 else i % 5},{'ab'[i % 2]}"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return _write(tmp_path / "table.csv", "celsius,fahrenheit,rain,cloud,sky", [_row(i) for i in range(60)])


def test_columns_are_scaled_to_their_own_range(table: Path) -> None:
    data = load_data(table)
    assert data.names == ("celsius", "cloud")
    assert data.values.min(axis=0).tolist() == [-1, -1] and data.values.max(axis=0).tolist() == [1, 1]
    restored = data.low + (data.values + 1) / 2 * (data.high - data.low)
    np.testing.assert_allclose(restored[:4, 0], [0, 1, 2, 4])  # the row with the empty cell is left out
    assert len(data.values) == 59 and data.rows_dropped == 1
    assert np.abs(data.readings).max() == 32768


def test_it_is_said_what_was_left_out_and_why(table: Path) -> None:
    assert load_data(table).dropped == {
        "fahrenheit": "says what celsius says",
        "rain": "too skewed: skewness 7.6, beyond 2",
    }


def test_categories_are_those_of_the_first_such_column(table: Path) -> None:
    data = load_data(table)
    assert (data.subject, data.categories) == ("sky", ("a", "b"))
    np.testing.assert_allclose(data.shares, [0.5, 0.5])


def test_without_one_they_are_bins_of_a_number(tmp_path: Path) -> None:
    data = load_data(_write(tmp_path / "n.csv", "x,y", [f"{i * 7 % 16},{i * i % 11}" for i in range(48)]))
    assert (data.subject, len(data.categories)) == ("x", 8)
    np.testing.assert_allclose(data.shares, np.full(8, 1 / 8))


def test_a_file_without_numbers_is_refused_with_reasons(tmp_path: Path) -> None:
    path = _write(tmp_path / "words.csv", "same,sky", ["1,a", "1,b"] * 20)
    with pytest.raises(DatasetError, match=r"no numeric column can be used .*same: always the same"):
        load_data(path)


def test_the_built_in_traces_need_no_file() -> None:
    data = load_data(None)
    assert data.k == 8 and np.abs(data.values).max() <= 1 and len(data.categories) == 4
    assert np.abs(data.means).max() < 0.9 and data.shares.min() > 0.05
