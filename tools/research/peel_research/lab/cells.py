# SPDX-License-Identifier: MIT
"""Figures as the cells of a table say them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["close", "delay", "devices", "interval", "name", "percent", "plain", "rate", "share", "small", "times"]


def name(row: Mapping[str, Any]) -> str:
    return str(row["attack"]).replace("_", " ")


def plain(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def percent(spread: Mapping[str, float]) -> Mapping[str, float]:
    return {name: 100 * value for name, value in spread.items()}


def small(value: float) -> str:
    return f"{value:.3g}"


def share(value: float) -> str:
    percent = 100 * value
    return f"{percent:.0f}%" if percent in (0, 100) or 1 <= percent <= 99 else f"{percent:.2f}%"


def rate(spread: Mapping[str, float] | None) -> str:
    if spread is None:
        return "-"
    low, high = max(0.0, spread["low"]), min(1.0, spread["high"])
    return share(spread["mean"]) if low == high else f"{share(spread['mean'])} ({share(low)} to {share(high)})"


def times(spread: Mapping[str, float]) -> str:
    if spread["low"] == spread["high"]:
        return f"{spread['mean']:.2f}"
    return f"{spread['mean']:.2f} ± {_reach(spread):.2f}"


def close(spread: Mapping[str, float]) -> str:
    """For what may be small: three digits, and where the mean may lie in as many of its own."""
    return f"{small(spread['mean'])} ± {_reach(spread):.2g}"


def _reach(spread: Mapping[str, float]) -> float:
    """From the mean to the end of its interval; to the further one, where the other is cut off by what can be."""
    return max(spread["high"] - spread["mean"], spread["mean"] - spread["low"])


def interval(spread: Mapping[str, float] | None) -> str:
    return "-" if spread is None else times(spread)


def devices(row: Mapping[str, Any]) -> str:
    return f"{row['attackers_exposed']} of {row['attackers']}" if row["attackers"] else "-"


def delay(row: Mapping[str, Any]) -> str:
    return "-" if row["delay"] is None else f"{row['delay']:.0f}, {row['slowest']}"
