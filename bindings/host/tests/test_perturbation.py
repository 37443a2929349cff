# SPDX-License-Identifier: MIT
"""Coins in bulk equal the core's coins one by one."""

from __future__ import annotations

import numpy as np
import pytest

from peel_core import MECHANISMS, PeelError
from peel_core.batch import perturb_many
from peel_core.primitives import Drbg, perturb, rule


@pytest.mark.parametrize(("name", "k", "domain"), [("harmony", 5, 0), ("krr", 5, 0), ("hashing", 3, 20)])
def test_many_are_as_one_by_one(name: str, k: int, domain: int, rng: np.random.Generator) -> None:
    mechanism, entropy, threshold = MECHANISMS[name].id, rng.bytes(32), rule(2**20, k)
    words = rng.integers(2**32, size=300, dtype=np.uint32)
    if name == "harmony":
        readings = rng.integers(-(2**15), 2**15, size=(300, k), endpoint=True)
    else:
        readings = rng.integers(domain or k, size=(300, 1))
    index, sign = perturb_many(mechanism, threshold, k, words, readings, entropy=entropy, domain=domain)
    drbg = Drbg(entropy)
    for i, word in enumerate(words):
        alone = perturb(mechanism, threshold, k, domain, int(word), readings[i].tolist(), drbg)
        assert (index[i], sign[i]) == (alone[0], 1 - 2 * alone[1])


def test_the_report_that_fails_is_named(rng: np.random.Generator) -> None:
    with pytest.raises(PeelError, match="report 2 of the batch"):
        perturb_many(MECHANISMS["krr"].id, 2**30, 4, np.zeros(3), [0, 3, 4], entropy=rng.bytes(32))


def test_no_reports_are_no_error(rng: np.random.Generator) -> None:
    index, sign = perturb_many(MECHANISMS["krr"].id, 2**30, 4, [], [], entropy=rng.bytes(32))
    assert len(index) == len(sign) == 0
