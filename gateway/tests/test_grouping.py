# SPDX-License-Identifier: MIT
"""Grouping of equal rows, with few and with very many possible values."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peel_gateway.model.grouping import add_up, unique_rows

SMALL, HUGE = st.integers(-3, 3), st.integers(-(2**61), 2**61)


@pytest.mark.parametrize("values", [SMALL, HUGE, SMALL | HUGE], ids=["small", "huge", "both"])
def test_sums_match_a_plain_loop(values: st.SearchStrategy[int]) -> None:
    @given(st.lists(st.tuples(values, values, st.integers(-5, 5)), max_size=40))
    def check(rows: list[tuple[int, int, int]]) -> None:
        first, second, value = np.array(rows, np.int64).reshape(-1, 3).T
        expected: Counter[tuple[int, int]] = Counter()
        for one, two, number in rows:
            expected[one, two] += number
        keys, (sums,) = add_up([first, second], [value])
        assert list(zip(*(column.tolist() for column in keys), strict=True)) == sorted(expected)
        assert sums.tolist() == [expected[key] for key in sorted(expected)]
        distinct, where = unique_rows(first, second)
        assert all(
            np.array_equal(column[where], whole) for column, whole in zip(distinct, (first, second), strict=True)
        )

    check()
