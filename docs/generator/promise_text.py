# SPDX-License-Identifier: MIT
"""Harm that an adaptive insider can do, from the last output of `peel bench promise --json` (docs/promise.json)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

__all__ = [
    "FIGURES",
    "exposure_table",
    "hysteresis_table",
    "insider_table",
    "mixed_exposure_table",
    "mixed_picking_sentence",
    "mixed_table",
    "one_attribute_table",
    "picking_table",
    "promise_sentence",
    "sacrifice_table",
    "verified_bounds_table",
    "verified_insiders_table",
    "verified_tables_sentence",
]

FIGURES = Path(__file__).resolve().parents[1] / "promise.json"

_LENGTHS = (1000, 10_000, 100_000)
_HASHED = {
    "few_": ", sets of 1, 2 or 4",
    "": ", also half of them",
    "without_one_": ", without 1",
    "without_few_": ", without 1, 2 or 4",
}
"""The sets that an insider supports or suppresses, by the prefix of the figures."""
_SYMBOL = {"harmony": "k", "krr": "k", "hashing": "d"}


def _figures() -> Mapping[str, Any]:
    figures: Mapping[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return figures


def promise_sentence() -> str:
    """Return the promise with its constants, for one profile."""
    row = _figures()["harmony"]["eps1_k252"]
    after = [f"{row[f'ratio_{n}']:.2f} over {n:,}" for n in _LENGTHS]
    slept = [f"{row[f'sleeper_ratio_{n}']:.2f}" for n in _LENGTHS]
    text = (
        f"At epsilon 1 with 252 attributes, an insider who knows everything does at most {row['cap']:.2f} times a liar's harm per "
        f"report. To stay unexposed he comes down to {after[0]} reports, {after[1]} and {after[2]}; after 100,000 honest reports "
        f"first, to {slept[0]}, {slept[1]} and {slept[2]}."
    )
    return "\n".join(wrap(text, 118)) + "\n"


def insider_table(mechanism: str) -> str:
    """Return harm over a liar's, per epsilon and number of attributes or categories."""
    lines = [
        f"| epsilon, {_SYMBOL[mechanism]} | cap | " + " | ".join(f"n = {n:,}" for n in _LENGTHS) + " | state |",
        "|---" * (3 + len(_LENGTHS)) + "|",
    ]
    for name, row in _figures()[mechanism].items():
        lines += _rows(name, row)
    return "\n".join(lines) + "\n"


def _rows(name: str, row: Mapping[str, float]) -> Iterator[str]:
    epsilon, size = re.fullmatch(r"eps([\d.]+)_[kd](\d+)", name).groups()  # type: ignore[union-attr] # the names are ours
    kinds = _HASHED if "few_ratio_1000" in row else {"": ""}
    for prefix, note in kinds.items():
        cells = [f"{_ratio(row, f'{prefix}ratio_{n}')} / {_ratio(row, f'{prefix}sleeper_ratio_{n}')}" for n in _LENGTHS]
        state = f"{row['state_bytes']:,} bytes"
        yield f"| {epsilon}, {int(size):,}{note} | {row['cap']:.2f} | {' | '.join(cells)} | {state} |"


def mixed_table() -> str:
    """Return harm over a liar's on the mixed profile, by the attacked questions."""
    figures = _figures()["mixed"]
    lengths = (1000, 10_000)
    lines = [
        "| attacked | cap | " + " | ".join(f"n = {n:,}" for n in lengths) + " |",
        "|---" * (2 + len(lengths)) + "|",
    ]
    for name, row in figures["harm"].items():
        cells = [f"{_ratio(row, f'ratio_{n}')} / {_ratio(row, f'sleeper_ratio_{n}')}" for n in lengths]
        lines.append(f"| {_block_name(name)} | {row['cap']:.2f} | {' | '.join(cells)} |")
    hidden = [_ratio(figures["no_reading_and_gaps"], f"ratio_{n}") for n in lengths]
    lines.append(f"| signs, minus hidden by no reading and gaps in turn | | {' | '.join(hidden)} |")
    return "\n".join(lines) + "\n"


def _block_name(name: str) -> str:
    *kinds, weight = name.split("_")
    return f"{' and '.join(kinds)}, weight {weight.removeprefix('weight')}" if kinds else "all questions"


def mixed_exposure_table() -> str:
    """Return the reports until an engine exposes each strategy on the mixed profile."""
    lines = ["| strategy | reports until exposed |", "|---|---|"]
    for name, reports in _figures()["mixed"]["reports_until_exposed"].items():
        lines.append(f"| {name.replace('_', ' ')} | {'not within 4,000' if reports is None else f'{reports:,}'} |")
    return "\n".join(lines) + "\n"


def mixed_picking_sentence() -> str:
    """Return the best share of a bucket that an insider gets for the light question of the mixed profile."""
    found = _figures()["mixed"]["light_question_bucket_share_over_fair"]
    shares = [max(row[f"held_{n}"] for row in found.values()) for n in (30, 200, 1000)]
    text = (
        f"The lightest question has one report in {_figures()['mixed']['slots']}. An insider who saves 30, 200 or 1,000 numbers gets "
        f"{shares[0]:.1f}, {shares[1]:.1f} or {shares[2]:.1f} times an honest device's reports about it into one time bucket of five "
        "reports, by waiting for the richest window of numbers."
    )
    return "\n".join(wrap(text, 118)) + "\n"


def one_attribute_table() -> str:
    """Return harm over a liar's if one attribute is attacked alone (Harmony), by the number of its reports."""
    lines = ["| epsilon, k | 100 reports of the attribute | 1,000 |", "|---|---|---|"]
    for name, row in _figures()["harmony"].items():
        epsilon, size = name.removeprefix("eps").split("_k")
        cells = [
            f"{row[f'one_attribute_ratio_{n}']:.2f} / {row[f'one_attribute_sleeper_ratio_{n}']:.2f}"
            for n in (100, 1000)
        ]
        lines.append(f"| {epsilon}, {size} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def sacrifice_table() -> str:
    """Return harm over a liar's if some attributes are sacrificed (Harmony), by the attributes that are pushed."""
    lines = ["| pushed of 252 | n | all reports | reports about the pushed ones |", "|---|---|---|---|"]
    for name, rows in _figures()["wasting"]["sacrifice"].items():
        n = int(name.rpartition("_n")[2])
        for targets, row in rows.items():
            cells = [f"{_ratio(row, kind)} / {_ratio(row, f'sleeper_{kind}')}" for kind in ("overall", "targets")]
            lines.append(f"| {targets.removeprefix('targets_')} | {n:,} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def hysteresis_table() -> str:
    """Return harm over a liar's to one attribute, by the number of reports about it."""
    rows = _figures()["wasting"]["hysteresis"]
    lengths = [int(name.removeprefix("ratio_")) for name in next(iter(rows.values()))]
    lines = ["| epsilon, k | " + " | ".join(f"{n:,}" for n in lengths) + " |", "|---" * (1 + len(lengths)) + "|"]
    for name, row in rows.items():
        epsilon, size = name.removeprefix("eps").split("_k")
        lines.append(f"| {epsilon}, {size} | {' | '.join(_ratio(row, f'ratio_{n}') for n in lengths)} |")
    return "\n".join(lines) + "\n"


def _ratio(row: Mapping[str, float], name: str) -> str:
    return f"{row[name]:.2f}" if name in row else "(exposed)"


def picking_table() -> str:
    """Return an insider's share of one attribute in one bucket over an honest device's, per strategy and setting."""
    settings = _figures()["bucket_share_over_fair"]
    shape = [re.fullmatch(r"k(\d+)_reports(\d+)", name).groups() for name in settings]  # type: ignore[union-attr] # the names are ours
    lines = [
        "| strategy | " + " | ".join(f"k = {k}, {reports} reports" for k, reports in shape) + " |",
        "|---" * (1 + len(shape)) + "|",
    ]
    for strategy in next(iter(settings.values())):
        cells = [_picked(table[strategy]) for table in settings.values()]
        lines.append(f"| {strategy.replace('_', ' ')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _picked(row: Mapping[str, float]) -> str:
    """Return one cell: a share per count of saved numbers."""
    held = [name.removeprefix("held_") for name in row if name.startswith("held_")]
    return " / ".join("(exposed)" if f"exposed_{n}" in row else f"{row[f'held_{n}']:.1f}" for n in held)


def exposure_table() -> str:
    """Return the reports until each strategy is exposed, the slowest of several tries."""
    return "\n".join(_exposures(_figures())) + "\n"


def _exposures(figures: Mapping[str, Any]) -> Iterator[str]:
    yield "| strategy | reports until exposed |"
    yield "|---|---|"
    for name, reports in figures["reports_until_exposed"].items():
        yield f"| {name.replace('_', ' ')} | {'not within 30,000' if reports is None else f'{reports:,}'} |"


_VERIFIED_ROWS = {
    "one target number per batch (the worst case)": ("harmony_eps1", "n"),
    "all in one time bucket": ("harmony_eps1", "bucket_n"),
    "the first row with 4 audits": ("harmony_eps1_4_audits", "n"),
    "hashed categories that are pushed, one per batch": ("hashing5000_eps1", "n"),
    "a hashed category that is kept from being said, one per batch": ("suppression5000_eps1", "n"),
    "kRR of 16 (16 audits), one per batch": ("krr16_eps1", "n"),
}
_VERIFIED_LENGTHS = (1, 5, 20, 100)


def verified_bounds_table() -> str:
    """Return the best expected harm against verified coins over a liar's, per coin and number of reports."""
    lines = [
        "| reports about the target | cap | " + " | ".join(map(str, _VERIFIED_LENGTHS)) + " |",
        "|---" * (2 + len(_VERIFIED_LENGTHS)) + "|",
    ]
    for name, (coin, prefix) in _VERIFIED_ROWS.items():
        row = _figures()["verified"][coin]
        cells = [f"{row[f'{prefix}{n}']:.3f}" for n in _VERIFIED_LENGTHS]
        lines.append(f"| {name} | {row['cap']:.1f} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def verified_insiders_table() -> str:
    """Return the exact harm of each strategy against verified coins, and that of its replay on the engine."""
    lines = [
        "| strategy | what it does | reports | exact | replayed | exposed | after |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in _figures()["verified"]["insiders"].items():
        after = "" if row["exposed_after"] is None else f"{row['exposed_after']:.1f}"
        lines.append(
            f"| {name.replace('_', ' ')} | {row['sentence']} | {row['reports']} | {row['exact']:.3f} "
            f"| {row['replayed']:.2f} ± {row['standard_error']:.2f} | {row['exposed']:.0%} | {after} |"
        )
    return "\n".join(lines) + "\n"


def verified_tables_sentence() -> str:
    """Return the harm of one report from a malformed table, by how many of its outcomes differ from the mask."""
    by_change = _figures()["verified"]["malformed_table_by_changed_entries"]
    listed = ", ".join(f"{value:.2f} with {others}" for others, value in by_change.items())
    text = (
        f"A malformed table that always shows the wanted outcome is the best one: a single report does {listed} of its 11 outcomes "
        "changed, times a liar's harm. The audit finds all of them alike."
    )
    return "\n".join(wrap(text, 118)) + "\n"
