# SPDX-License-Identifier: MIT
"""Verified coins on the engine: held until opened, counted as one group, and exposed by proof."""

from __future__ import annotations

import pytest
from lab import MakeLab, harmony_profile, hashing_profile, krr_profile
from verified import Talker, verified

from peel_gateway.engine.recount import recount


@pytest.mark.parametrize(
    ("profile", "reading"),
    [(harmony_profile(4), 0.5), (krr_profile(4, epsilon=2.0), 1), (hashing_profile(500, epsilon=1.0), 7)],
    ids=["signs", "choice", "hashed"],
)
def test_reports_count_once_their_coins_are_opened(make_lab: MakeLab, profile: object, reading: float) -> None:
    lab = make_lab(verified(profile), devices=1)
    talker = Talker(lab)
    talker.ready()
    assert talker.talk(talker.report(20, reading)) == {}, "held: no verdict yet"
    (before,) = lab.estimates()
    assert before.n == 0
    counts = talker.finish()
    assert counts["accepted"] == 20 and set(counts) == {"accepted", "revealed"}
    (after,) = lab.estimates()
    assert after.n == 20
    found = recount(lab.store, lab)
    assert found.agrees, found.differences
