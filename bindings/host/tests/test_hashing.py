# SPDX-License-Identifier: MIT
"""Local hashing on hosts: pairs collide for exactly one hash in k, one transform gives all supports, reports work end to end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from peel_core import (
    Keyring,
    Profile,
    ProfileError,
    derive_keys,
    encode_many,
    hash_family,
    hashing,
    index_many,
    make_profile,
    open_many,
    projection,
)

TABLE: dict[str, Any] = {
    "name": "visits", "epsilon": 1, "verify": False, "seed": 1, "quota": 5, "period": 60,
    "attribute": [{"name": "place", "kind": "hashed", "domain": 1000}],
}  # fmt: skip


def profile(domain: int, epsilon: float = 1.0) -> Profile:
    return make_profile(
        TABLE | {"epsilon": epsilon, "attribute": [{"name": "place", "kind": "hashed", "domain": domain}]}
    )


def naive_supports(cells: NDArray[np.int64], counts: NDArray[np.int64], k: int, domain: int) -> NDArray[np.int64]:
    """Count by definition: a report counts for every category that its hash maps to its symbol."""
    says = hashing.hashed((cells // k)[:, None], np.arange(domain)[None, :], k, domain) == (cells % k)[:, None]
    return np.asarray((says * counts[:, None]).sum(axis=0))


@pytest.mark.parametrize(
    ("k", "domain"), [(2, 2), (2, 33), (3, 27), (3, 100), (5, 600), (7, 49), (13, 170), (127, 300)]
)
def test_two_categories_agree_for_one_hash_in_k(k: int, domain: int) -> None:
    count = hash_family.hash_count(k, domain)
    assert count >= domain
    pairs = np.random.default_rng(1).integers(0, domain, (50, 2))
    table = hashing.hashed(np.arange(count)[:, None], pairs.ravel()[None, :], k, domain)
    agree = (table[:, 0::2] == table[:, 1::2]).sum(axis=0)
    assert np.array_equal(agree[pairs[:, 0] != pairs[:, 1]] * k, np.full((pairs[:, 0] != pairs[:, 1]).sum(), count))


@pytest.mark.parametrize(
    ("k", "domain"), [(2, 2), (2, 300), (3, 3), (3, 500), (5, 126), (7, 2000), (11, 12), (127, 130)]
)
def test_supports_are_the_sums_of_the_definition(k: int, domain: int) -> None:
    rng = np.random.default_rng(k)
    cells = rng.integers(0, hash_family.hash_count(k, domain) * k, 400)
    counts = rng.integers(0, 10**6, 400)
    found = hashing.supports(cells, counts, k, domain)
    assert found.shape == (domain,)
    assert np.abs(found - naive_supports(cells, counts, k, domain)).max() < 1e-3


def test_supports_of_the_largest_domain_stay_exact() -> None:
    """10^9 reports in few cells, where rounding is worst."""
    k, domain = 3, 65535
    rng = np.random.default_rng(5)
    cells = rng.integers(0, hash_family.hash_count(k, domain) * k, 50)
    counts = rng.integers(10**7, 4 * 10**7, 50)
    found = hashing.supports(cells, counts, k, domain)
    assert np.abs(found - naive_supports(cells, counts, k, domain)).max() < 1e-3


def test_supports_take_weights() -> None:
    cells, weights = np.array([5, 5, 8]), np.array([0.25, 0.5, 1.0])
    halves = naive_supports(cells, (4 * weights).astype(np.int64), 3, 20) / 4
    assert np.allclose(hashing.supports(cells, weights, 3, 20), halves)


def test_no_report_supports_nothing() -> None:
    assert not hashing.supports([], [], 3, 100).any()


@pytest.mark.parametrize(("epsilon", "domain"), [(1.0, 1000), (0.3, 40), (2.0, 65535), (4.0, 500)])
def test_reports_give_the_frequencies_back(epsilon: float, domain: int) -> None:
    """From categories through frames, sealed and opened, to the estimate: within five standard errors of the truth."""
    made, n = profile(domain, epsilon), 40_000
    truth = np.zeros(domain)
    truth[[0, domain // 2, domain - 1]] = 0.5, 0.3, 0.2
    categories = np.random.default_rng(3).choice(domain, n, p=truth).astype(np.int32)
    ids = np.array([7], np.uint32)
    key = derive_keys(bytes(range(32)), "fleet", ids, 1, bytes(16))
    numbers = np.arange(1, n + 1)
    many, keys = np.repeat(ids, n), key.of(np.zeros(n, np.intp))
    frames = encode_many(made, many, keys, numbers, categories, entropy=bytes(range(64)))
    opened = open_many(Keyring([made], ids, 1, [0], key), [frames.tobytes()])
    assert not opened.code.any()
    assert np.array_equal(opened.unit, index_many(made, many, keys, numbers))
    symbol, sign, _ = projection.reconstruct(projection.reconstruction(made.seed, made.width), opened.trits)
    assert symbol.max() < made.k
    assert (sign == 1).all()

    cells, counts = np.unique(opened.unit.astype(np.int64) * made.k + symbol, return_counts=True)
    support = hashing.supports(cells, counts, made.k, domain)
    keep = made.blocks[0].true_share
    estimate = (support / n - 1 / made.k) / (keep * (1 - 1 / made.k))
    error = np.sqrt(1 / made.k * (1 - 1 / made.k) / n) / (keep * (1 - 1 / made.k)) + 0.5 / np.sqrt(n)
    assert np.abs(estimate - np.bincount(categories, minlength=domain) / n).max() < 5 * error


def test_a_frame_is_as_small_as_that_of_a_small_profile() -> None:
    assert profile(65535).frame_bytes == profile(2).frame_bytes == 38


def test_the_id_depends_on_the_domain_and_on_names() -> None:
    names = [f"n{i}" for i in range(1000)]
    named = make_profile(TABLE | {"attribute": [{"name": "place", "kind": "hashed", "categories": names}]})
    assert len({named.id, profile(1000).id, profile(1001).id}) == 3
    assert (named.size, named.k, named.label(7)) == (1000, profile(1000).k, "n7")
    assert profile(1000).label(7) == "7"


def test_a_device_is_not_given_more_names_than_it_can_hold() -> None:
    few, many = (
        make_profile(
            TABLE | {"attribute": [{"name": "place", "kind": "hashed", "categories": [f"n{i}" for i in range(count)]}]}
        )
        for count in (1024, 1025)
    )
    assert len(few.table()["attributes"][0]["categories"]) == few.table()["attributes"][0]["domain"] == 1024
    assert "categories" not in many.table()["attributes"][0]
    assert many.table()["attributes"][0]["domain"] == 1025


@pytest.mark.parametrize(
    ("attribute", "key"),
    [
        ({"name": "place", "kind": "hashed"}, "attribute[0].domain"),
        ({"name": "place", "kind": "hashed", "domain": 1}, "attribute[0].domain"),
        ({"name": "place", "kind": "hashed", "domain": 65536}, "attribute[0].domain"),
        ({"name": "place", "kind": "hashed", "domain": 3, "categories": ["a", "b", "c"]}, "attribute[0].domain"),
        ({"name": "place", "kind": "hashed", "domain": 2.5}, "attribute[0].domain"),
        ({"name": "place", "kind": "hashed", "categories": ["a"]}, "attribute[0].domain"),
    ],
)
def test_errors_name_the_key(attribute: dict[str, Any], key: str) -> None:
    with pytest.raises(ProfileError) as caught:
        make_profile(TABLE | {"attribute": [attribute]})
    assert caught.value.key == key


def krr(categories: int, epsilon: float, **more: Any) -> Profile:
    names = [f"n{i}" for i in range(categories)]
    table = TABLE | {
        "epsilon": epsilon,
        "verify": False,
        "attribute": [{"name": "place", "kind": "category", "categories": names} | more],
    }
    return make_profile(table)


def test_krr_is_refused_from_where_hashing_is_better() -> None:
    """change (keep + (k - 2) change) against (keep + (g - 1) change)^2 / (g - 1): with 8:3 and g = 3 from 11 categories on."""
    assert krr(10, 1).k == 10
    with pytest.raises(ProfileError, match=r"hashed.*force_category = true"):
        krr(11, 1)
    assert krr(11, 1, force_category=True).k == 11
    assert krr(10, 1, force_category=True).id == krr(10, 1).id, "it is no part of what devices agree on"
    assert krr(150, 4).k == 150


def test_only_a_truth_value_forces_krr() -> None:
    with pytest.raises(ProfileError) as caught:
        krr(11, 1, force_category="yes")
    assert caught.value.key == "attribute[0].force_category"


def test_the_odds_are_those_of_the_symbols() -> None:
    (block,) = profile(65535).blocks
    assert (block.symbols, block.keep, block.change) == (3, 8, 3)
    assert block.likeliest == 8 / 14
