# SPDX-License-Identifier: MIT
"""The live view of the demonstration fits the terminal for any names and numbers."""

from __future__ import annotations

import io

import pytest

from peel_tools.demo.demonstration import Outcome
from peel_tools.demo.live import LiveSummary
from peel_tools.simulation.referee import Findings, KindFindings

_WIDE = 80


def _estimate(name: str, value: float, half: float, unit: str, kind: str = "mean") -> dict[str, object]:
    return {
        "profile": "p", "attribute": name.partition(":")[0], "kind": kind, "name": name,
        "value": value, "low": value - half, "high": value + half, "truth": value, "unit": unit,
        "before_withdrawal": value,
    }  # fmt: skip


def _outcome(rows: list[dict[str, object]]) -> Outcome:
    findings = Findings(
        published=1_234_567, unacknowledged=0, honest=9, faulty=0, accepted=9, honest_exposed=0, honest_devices_exposed=0,
        lost=0, double_counted=0, altered=0, exposed={f"verdict_{place}": 10**place for place in range(11)},
        attacks={"hide_attribute": KindFindings("statistics", pieces=1_000_000, exposed=1_000_000, devices=1)},
    )  # fmt: skip
    return Outcome(findings, rows, drained=True, confirmed=9, unconfirmed=0)


def test_it_fits_into_eighty_columns() -> None:
    stream = io.StringIO()
    rows = [
        _estimate("relative_humidity_at_2_m_above_the_ground", 61.65, 1.5, "%"),
        _estimate("pressure", 1004.84, 1.6, "hPa"),
        _estimate("radiation", 1_251_003.0, 30_000.0, "µmol/m²s"),
        _estimate("fraction", 0.00123, 0.00004, ""),
        _estimate("flow", -12_345.6, 0.02, "l/h"),
        *(_estimate(f"error: {code}", 0.5 / (code + 1), 0.01, "", "hashed") for code in range(100)),
    ]
    LiveSummary(stream).end(_outcome(rows))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= _WIDE
    shown = {line.split()[0]: line.split() for line in lines if "…" in line}
    digits_that_the_interval_deserves = ["0.001230", "0.001190", "…", "0.001270"]
    assert shown["fraction"][1:5] == digits_that_the_interval_deserves
    assert shown["radiation"][1] == "1251003"
    assert any(line.startswith("relative_humid") for line in lines)
    assert sum(line.startswith("error: ") for line in lines) == 5


def test_of_many_categories_only_the_most_frequent_are_shown() -> None:
    stream = io.StringIO()
    rows = [_estimate(f"error: {code}", (code * 37 % 100) / 1000, 0.01, "", "hashed") for code in range(100)]
    doors = [_estimate(f"door: {place}", 0.1, 0.01, "", "category") for place in range(8)]
    LiveSummary(stream).end(_outcome([*doors, *rows]))
    lines = stream.getvalue().splitlines()
    most = sorted(range(100), key=lambda code: -(code * 37 % 100))[:5]
    assert [line.split()[1] for line in lines if line.startswith("error:")] == [str(code) for code in most]
    assert sum(line.startswith("door:") for line in lines) == 8


def test_it_draws_no_more_lines_than_the_terminal_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise what has scrolled away could not be drawn over."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", str(_WIDE))
    monkeypatch.setenv("LINES", "24")
    stream = Terminal()
    LiveSummary(stream)._draw([f"line {place}" for place in range(60)])
    assert len(stream.getvalue().splitlines()) == 23
