# SPDX-License-Identifier: MIT
"""A profile with two attributes, as text."""

from __future__ import annotations

from peel_core.projection import search_seed

__all__ = ["WIDTH", "climate_profile"]

WIDTH = 48


def climate_profile(name: str = "climate", *, quota: int = 96, period: int = 86400, lifetime: int | None = None) -> str:
    """Temperature and soil, by Harmony with epsilon 1."""
    return f"""
name = "{name}"
mechanism = "harmony"
epsilon = 1.0
width = {WIDTH}
seed = {search_seed(WIDTH, 2)[0]}
quota = {quota}
period = {period}
{"" if lifetime is None else f"lifetime = {lifetime}"}
[[attribute]]
name = "temperature"
unit = "degC"
low = -10
high = 50
[[attribute]]
name = "soil"
unit = ""
low = 0
high = 1
"""
