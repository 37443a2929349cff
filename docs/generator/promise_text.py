# SPDX-License-Identifier: MIT
"""What an adaptive insider can still do, from what `peel bench promise --json` printed last (docs/promise.json)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["FIGURES", "exposure_table", "insider_table", "promise_sentence"]

FIGURES = Path(__file__).resolve().parents[1] / "promise.json"

_LENGTHS = (1000, 10_000, 100_000)
_SYMBOL = {"harmony": "k", "krr": "k", "hashing": "d"}


def _figures() -> Mapping[str, Any]:
    figures: Mapping[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return figures


def promise_sentence() -> str:
    """The promise with its constants, for one profile."""
    row = _figures()["harmony"]["eps1_k252"]
    after = [f"{row[f'ratio_{n}']:.2f} after {n:,} reports" for n in _LENGTHS]
    slept = " and ".join(f"{row[f'sleeper_ratio_{n}']:.2f}" for n in _LENGTHS[:2])
    return (
        f"At epsilon 1 with 252 attributes an insider who knows everything does at most {row['cap']:.2f} times a liar's harm per\n"
        f"report before judgement; to stay unexposed he must come down to {', '.join(after)}.\n"
        f"One who was honest for 100,000 reports first: {slept}.\n"
    )


def insider_table(mechanism: str) -> str:
    """Harm over a liar's, per epsilon and number of attributes or categories."""
    lines = [
        f"| epsilon, {_SYMBOL[mechanism]} | cap | " + " | ".join(f"n = {n:,}" for n in _LENGTHS) + " | state |",
        "|---" * (3 + len(_LENGTHS)) + "|",
    ]
    for name, row in _figures()[mechanism].items():
        epsilon, size = re.fullmatch(r"eps([\d.]+)_[kd](\d+)", name).groups()  # type: ignore[union-attr]
        cells = [f"{_ratio(row, f'ratio_{n}')} / {_ratio(row, f'sleeper_ratio_{n}')}" for n in _LENGTHS]
        lines.append(
            f"| {epsilon}, {int(size):,} | {row['cap']:.2f} | {' | '.join(cells)} | {row['state_bytes']:,} bytes |"
        )
    return "\n".join(lines) + "\n"


def _ratio(row: Mapping[str, float], name: str) -> str:
    return f"{row[name]:.2f}" if name in row else "(exposed)"


def exposure_table() -> str:
    """Reports until each strategy is exposed: the slowest of several tries."""
    return "\n".join(_exposures(_figures())) + "\n"


def _exposures(figures: Mapping[str, Any]) -> Iterator[str]:
    yield "| strategy | reports until exposed |"
    yield "|---|---|"
    for name, reports in figures["reports_until_exposed"].items():
        yield f"| {name.replace('_', ' ')} | {'not within 30,000' if reports is None else f'{reports:,}'} |"
