# SPDX-License-Identifier: MIT
"""Projections: every codeword of many k decodes to itself, and altered codewords have a larger residual."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peel_core import PeelError, project_many, projection
from peel_core.primitives import codeword, unpack


@pytest.mark.parametrize(
    "k",
    [
        *(2, 3, 4, 5, 7, 8, 12, 16, 31, 48, 49, 64, 100, 128, 200, 251, 252, 253, 400, 512),
        *(pytest.param(k, marks=pytest.mark.slow) for k in (777, 1024)),
    ],
)
def test_all_codewords_decode_to_themselves(k: int) -> None:
    width = max(48, k)
    seed, found = projection.search_seed(width, k, start=k)
    assert found.sound
    indices, minus = np.tile(np.arange(k), 2), np.repeat([0, 1], k)
    trits = project_many(seed, width, indices, minus).astype(np.float32)
    index, sign, residual = projection.reconstruct(projection.reconstruction(seed, width), trits)
    assert np.array_equal(index, indices)
    assert np.array_equal(sign, 1 - 2 * minus)
    assert residual.max() < projection.MAX_HONEST_RESIDUAL


def test_every_single_trit_change_leaves_a_residual() -> None:
    width = k = 48
    seed, _ = projection.search_seed(width, k)
    gamma = projection.reconstruction(seed, width)
    codewords = project_many(seed, width, np.arange(k)).astype(np.float32)
    for shift in (1, 2):
        for position in range(width - 1):
            altered = codewords.copy()
            altered[:, position] = (altered[:, position] + 1 + shift) % 3 - 1
            _, _, residual = projection.reconstruct(gamma, altered)
            assert residual.min() > 100 * projection.MAX_HONEST_RESIDUAL


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), width=st.integers(2, 300))
def test_rows_are_balanced_for_any_seed(seed: int, width: int) -> None:
    phi = projection.matrix(seed, width)
    assert phi.shape == (width - 1, width)
    assert np.all(phi.sum(axis=1) == 0)
    assert set(np.unique(phi)) <= {-1, 0, 1}


@settings(max_examples=200)
@given(st.data())
def test_packed_and_batched_codewords_agree(data: st.DataObject) -> None:
    width = data.draw(st.integers(2, 1024))
    seed, index, minus = data.draw(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, width - 1), st.integers(0, 1)))
    assert unpack(width, codeword(seed, width, index, minus)) == project_many(seed, width, [index], [minus])[0].tolist()


def test_negation_is_the_other_sign() -> None:
    assert np.array_equal(project_many(5, 64, [9], [0]), -project_many(5, 64, [9], [1]))


def test_a_singular_seed_is_not_sound() -> None:
    singular = next(s for s in range(200) if np.linalg.matrix_rank(projection.matrix(s, 8).astype(float)) < 7)
    assert not projection.soundness(singular, 8, 4).sound


def test_search_gives_up_with_advice() -> None:
    with pytest.raises(LookupError, match="larger width"):
        projection.search_seed(3, 3, attempts=0)


def test_width_out_of_range() -> None:
    with pytest.raises(PeelError, match="width"):
        project_many(1, 1025, [0])
