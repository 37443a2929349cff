# SPDX-License-Identifier: MIT
"""The PEEL paper's claims compared with a run: which hold, and which do not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["claims"]

Figures = Mapping[str, Any]


def claims(figures: Figures) -> list[tuple[str, str, str]]:
    """Claim, what the paper says, what came out here."""
    return [*_encoding(figures), *_poisoning(figures), *_accuracy(figures), *_costs(figures)]


def _encoding(figures: Figures) -> Iterator[tuple[str, str, str]]:
    wires = figures["paper"]["wire"]
    first, last = wires[0], wires[-1]
    yield (
        "Honest reports are reconstructed without loss.",
        "The residual of an honest report is 0, with ceil(log2(k-1)) bits a coordinate.",
        f"True of real numbers (residual {last['exact_residual']:.0e}). On that wire the worst honest residual is "
        f"{last['residual']:.2f} of the norm at k = {last['k']}, and at k = {first['k']} {100 * first['wrong']:.0f}% of honest reports "
        "come out as another one.",
    )


def _poisoning(figures: Figures) -> Iterator[tuple[str, str, str]]:
    found = {row["attack"]: row for row in figures["paper"]["exposures"]}
    ours = defaultdict[str, float | None](lambda: None, figures["exposure"])
    yield (
        "Rule poisoning is exposed.",
        "Estimated ratio 5% of 5%, Laplace and kRR.",
        f"By the residual: {_estimated(figures, 'rule')}. Normalisation within a vector divides the scale out, and with it the budget. "
        f"With the rule in the frame: {_percent(ours['rule_poisoning_declared'])} if declared, "
        f"{_percent(ours['rule_poisoning_hidden_DPPA'])} if hidden.",
    )
    coded = _estimated(figures, "output", lambda acts: acts != "on y")
    late = _estimated(figures, "output", lambda acts: acts == "on y")
    yield (
        "Output poisoning is exposed.",
        "Estimated ratio 5% of 5%, Laplace and kRR.",
        f"By the residual, if y is altered by somebody who does not use Phi: {late}. If the altered report is encoded like any "
        f"other: {coded}; it is a codeword. With assigned attributes: {_percent(ours['output_poisoning_any_attribute'])}; of "
        f"categories, or within the assigned attribute, {_percent(ours['output_poisoning_category'])}, and no more harm than a lie.",
    )
    yield (
        "Attacks within the code: negation, replay, another codeword of the public Phi.",
        "Not considered.",
        f"The residual exposes {_percent(found['negation']['exposed'])} of negated, {_percent(found['replay']['exposed'])} of "
        f"replayed reports and {_percent(found['always one report']['exposed'])} of forged codewords; seal and numbers "
        f"{_percent(ours['negation'])}, {_percent(ours['replay'])} and {_percent(ours['codeword_forgery_without_key'])}.",
    )


def _accuracy(figures: Figures) -> Iterator[tuple[str, str, str]]:
    rows = figures["accuracy"]
    inside = sum(row["free"]["low"] <= row["free_theory"] <= row["free"]["high"] for row in rows)
    price = {row["mechanism"]: row["peel_theory"] / row["plain_theory"] for row in rows}
    free = [name for name, times in price.items() if times < 1.001]
    worst = max(price, key=lambda name: price[name])
    yield (
        "PEEL keeps estimates unbiased; its error is that of the mechanism and Delta_n.",
        "Delta_n = 0 for 1-sparse mechanisms.",
        f"Confirmed for reports that carry a magnitude: theory is within the 95% interval of {inside} of {len(rows)} mechanisms. What is "
        f"left after normalisation is a place and a sign; {len(free)} mechanisms lose nothing by that ({', '.join(free)}), others pay, "
        f"{worst} most: {price[worst]:.0f} times its error.",
    )


def _costs(figures: Figures) -> Iterator[tuple[str, str, str]]:
    rows = {row["scheme"]: row for row in figures["overheads"]}
    printed, ours = rows["Harmony-PEEL, the paper"], rows["Peel, this project"]
    yield (
        "A report has 2,016 bits at k = 252.",
        f"{printed['bits_printed']} bits, {printed['ms_printed']} ms.",
        f"{printed['bits']:,} by its own formula, and {printed['ms'] * 1000:.1f} µs here; Peel's whole frame, sealed, {ours['bits']:,} "
        f"bits and {ours['ms'] * 1000:.1f} µs.",
    )


def _percent(share: float | None) -> str:
    return "does not apply" if share is None else f"{100 * share:.0f}%"


def _estimated(figures: Figures, attack: str, where: Callable[[str], bool] = lambda _: True) -> str:
    """The shares of poisoned devices that the paper's method estimates, by mechanism; `where` chooses by what the attack acts on."""
    shares = [
        f"{row['ratio']['mean']:.2f}% ({row['mechanism']})"
        for row in figures["ratio_estimates"]
        if row["defence"].startswith("PEEL")
        and row["ratio"] is not None
        and row["attack"] == attack
        and where(row["acts"])
    ]
    return " and ".join(shares) if shares else "does not apply"
