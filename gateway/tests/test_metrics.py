# SPDX-License-Identifier: MIT
"""Counters with labels begin at 0 with every value of theirs, so that the first event shows as a rise."""

from __future__ import annotations

import pytest

from peel_gateway.metrics import Metrics
from peel_gateway.storage import store
from peel_gateway.storage.store import StoreError

KINDS = [name for name in store.__all__ if issubclass(getattr(store, name), StoreError) and name != "StoreError"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_failure_of_the_store_is_there_before_it_happens(kind: str) -> None:
    registry = Metrics().registry
    assert registry.get_sample_value("peel_store_failures_total", {"kind": kind}) == 0
