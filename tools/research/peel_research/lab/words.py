# SPDX-License-Identifier: MIT
"""The lab's results as tables with a title and a few sentences, for the terminal, the page and the documents.

Attacks that are not exposed come first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peel_gateway.model.verdict import LAYERS
from peel_research.lab import cells
from peel_research.lab.claims import claims
from peel_research.lab.rivals import RIVALS

__all__ = ["Section", "sections", "summary"]

Figures = Mapping[str, Any]
Row = Sequence[str]


@dataclass(frozen=True)
class Section:
    """A table with its title and explanation."""

    key: str
    title: str
    text: str
    header: Row
    rows: Sequence[Row]
    plot: str | None = None
    """The name of its plot."""


def summary(figures: Figures) -> str:
    """Return the run and its result in a few sentences."""
    run, data = figures["run"], figures["data"]
    refused, honest = figures["honest_reports_refused"], figures["honest_reports"]
    late = figures["adaptive_shift_over_liar"]["harmony"]["10000"]
    return (
        f"{cells.share(run['share'])} of {run['devices']} devices attack, or {cells.share(run['share'])} of their reports are attacked, "
        f"at epsilon {run['epsilon']:g}, with {len(run['seeds'])} seed{'s' if len(run['seeds']) > 1 else ''}. "
        f"The data is {data['source']}: {data['rows']:,} rows, {len(data['columns'])} attributes and {data['categories']} categories. "
        f"Of {honest:,} honest reports {refused or 'none'} {'were' if refused > 1 else 'was'} refused or withdrawn"
        f" (with 95% confidence fewer than one in {1 / figures['false_positive_limit']:,.0f}). "
        f"An insider who knows everything and stays unexposed does {late:.2f} times a liar's harm per report over 10,000 reports. "
        f"For every target the harm is at most {figures['adaptive_shift_over_bound']:.1%} of the proven maximum for an attacker who uses "
        "every report."
    )


def sections(figures: Figures) -> list[Section]:
    """Return all tables in reading order."""
    makers: Sequence[Callable[[Figures], Section]] = (
        _not_exposed, _exposed, _by_layer, _scores, _attacks, _insider, _ratios, _recovery, _rivals, _claims, _residual, _wire, _accuracy,
        _overheads, _formulas, _dropped,
    )  # fmt: skip
    newer = [_verified, _guarantees] if "verified" in figures else []  # a stored run may be older
    return [make(figures) for make in (*makers, *newer)]


# ---- (b) attacks ----


_ABOUT = ("profile", "kind", "mechanism")
_PROFILES = (
    "The profile mixed has attributes of every kind. There an attacker attacks the questions of one kind and is honest about all others. "
    "Kind any is about all of them. Delays count all reports of the device."
)


def _about(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return profile, kind of attribute and mechanism of a row."""
    return "mixed" if row["mixed"] else "one kind", row["kind"], row["mechanism"]


def _not_exposed(figures: Figures) -> Section:
    rows = [
        (
            cells.name(row),
            *_about(row),
            row["place"],
            cells.rate(row["exposure"]),
            cells.times(row["after_over_liar"]),
            row["why"],
        )
        for row in figures["attacks"]
        if row["layer"] is None
    ]
    return Section(
        "not_exposed",
        "Attacks that are not exposed",
        "These attacks pass, all or most of the time. The shift is relative to the worst lie that the same devices could tell about any "
        "attribute or category: 1 is the same harm, and chance can make it a little more. Intervals here and below are 95% intervals of a "
        "mean over seeds. A cell without one is the same with every seed. " + _PROFILES,
        ("attack", *_ABOUT, "acts on", "exposed", "shift over a liar's", "why"),
        rows,
        plot="shifts",
    )


def _exposed(figures: Figures) -> Section:
    rows = [
        (
            cells.name(row), *_about(row), row["place"], row["layer"], cells.rate(row["exposure"]), cells.devices(row),
            cells.delay(row),
            *(cells.times(row[f"{when}_over_liar"]) for when in ("undefended", "before", "after")),
        )
        for row in figures["attacks"]
        if row["layer"] is not None
    ]  # fmt: skip
    return Section(
        "exposed",
        "(b) Attacks that are exposed",
        "Exposed is the share of poisoned reports that do not count in the end: refused, counted once as repetitions, or withdrawn with "
        "their device. The delay is in poisoned reports of a device, the median and the slowest. Shifts are those of the worst statistic, "
        "relative to the worst lie about any statistic. Undefended counts every report that opens (0.00 if none does or says anything). "
        "Before withdrawal counts reports that pass by themselves. Published is what is left once devices are withdrawn. "
        f"False positives in all trials: {figures['honest_reports_refused']:,} of {figures['honest_reports']:,} honest reports.",
        (
            "attack", *_ABOUT, "acts on", "layer", "exposed", "devices exposed", "delay", "undefended", "before withdrawal",
            "published",
        ),
        rows,
        plot="delays",
    )  # fmt: skip


def _by_layer(figures: Figures) -> Section:
    labels = [layer.label for layer in LAYERS]
    rows = [
        (cells.name(row), *_about(row), *(cells.share(row["layers"][label]) if label in row["layers"] else "" for label in labels))
        for row in figures["attacks"]
    ]  # fmt: skip
    return Section(
        "layers",
        "(b) Attack by layer",
        "The layer that objected to the poisoned reports on arrival. Statistics judge a device's batch as a whole. Reports after the "
        "exposure are withdrawn, and so are those before it, to which no layer objected. Repeated bytes, as the beginnings of frames often "
        "are, count once; freshness finds them.",
        ("attack", *_ABOUT, *labels),
        rows,
    )


def _scores(figures: Figures) -> Section:
    rows = [
        (name, *(cells.interval(scores[key]) for key in ("precision", "recall", "f1", "fpr")))
        for name, scores in figures["scores"].items()
    ]
    return Section(
        "scores",
        "(b) Precision and recall, unweighted over attacks",
        "With intervals over seeds. Exposable are attacks with a layer against them. Reports forged in another's name are refused, but do "
        "not name their author. "
        f"Of {figures['honest_reports']:,} honest reports "
        f"{figures['honest_reports_refused']:,} were refused or withdrawn, of {figures['honest_devices']:,} honest devices "
        f"{figures['honest_devices_exposed']:,} exposed.",
        ("of what", "precision", "recall", "F1", "false positives"),
        rows,
    )


def _attacks(figures: Figures) -> Section:
    records = {row["attack"]: row for row in figures["attacks"]}
    return Section(
        "attacks",
        "(b) The attacks",
        "What each attack does, what the attacker needs, and what exposes it or why nothing can.",
        ("attack", "acts on", "the attacker", "what is done", "exposed by", "why"),
        [
            (cells.name(row), row["place"], row["needs"], row["help"], row["layer"] or "nothing", row["why"])
            for row in records.values()
        ],
    )


# ---- (e) insider ----


def _insider(figures: Figures) -> Section:
    rows = [
        (
            row["mechanism"], row["target"], f"{row['n']:,}", cells.plain(row["cap"]), cells.plain(row["newcomer"]),
            cells.plain(row["steady"]), cells.plain(row["bound"]), cells.plain(row["sleeper"]), cells.plain(row["sleeper_bound"]),
        )
        for row in figures["insider"]
    ]  # fmt: skip
    return Section(
        "insider",
        "(e) Harm of an insider who knows everything",
        f"Harm per report relative to a liar's, on average over n reports without being exposed, with {_sizes(figures)}. Newcomer and "
        "sleeper are the best of three strategies, each played once. A sleeper was honest for 100,000 reports first, with three strategies "
        "for each kind of past. The bounds are proven maxima. A steady attacker, like those here, wastes no reports to confuse the bets on "
        "its own past. Plus and minus have equal capital, so one row stands for both. Of a set of hashed categories, every report with the "
        "symbol that most of them hash to counts alike. A dash: only the cap is proved.",
        (
            "mechanism", "target", "n", "cap", "newcomer", "bound, steady", "bound, any", "sleeper", "bound, any sleeper",
        ),
        rows,
        plot="insider",
    )  # fmt: skip


def _sizes(figures: Figures) -> str:
    sizes = {row["mechanism"]: row["k"] for row in figures["insider"]}
    attributes = f"{sizes['harmony']} attribute{'s' if sizes['harmony'] > 1 else ''}"
    return f"{attributes} and {sizes['krr']} categories"


def _verified(figures: Figures) -> Section:
    rows = [
        (
            name.replace("_", " "), row["sentence"], str(row["reports"]), cells.plain(row["exact"], 3), cells.plain(row["replayed"]),
            cells.plain(row["standard_error"]), cells.share(row["exposed"]), cells.plain(row["exposed_after"], 1),
        )
        for name, row in figures["verified"].items()
    ]  # fmt: skip
    return Section(
        "verified",
        "(f) Insiders against verified coins",
        "Harm relative to a liar's over so many reports about the target, at odds 8:3. Exact is the expected harm. Replayed is the mean of "
        "games on the real engine, with its standard error. Exposed are the insiders that the gateway exposed, after so many counted "
        "reports on average; the others fell silent, stalled, or had nothing to hide.",
        ("insider", "what is done", "reports", "exact", "replayed", "standard error", "exposed", "after"),
        rows,
    )


# ---- (a) ratios ----


def _ratios(figures: Figures) -> Section:
    silent = [row for row in figures["ratio_estimates"] if row["ratio"] is None and row["printed"] is None]
    scenes = {(row["mechanism"], row["attack"]) for row in figures["ratio_estimates"]}
    rows = [
        (
            row["mechanism"], row["attack"], row["defence"], row["acts"], cells.plain(row["printed"]), cells.interval(row["ratio"]),
            cells.interval(row["recall"]), cells.interval(row["false_positives"]),
        )
        for row in figures["ratio_estimates"]
        if row not in silent
    ]  # fmt: skip
    return Section(
        "ratios",
        "(a) Estimated share of poisoned devices, in percent; 5 in truth",
        "Printed is the paper's value for the weather data. A share says how many devices, not which: recall and false positives are those "
        "of devices. In rows without an attack, 0 is the truth. The best possible test knows every reading and the attack: no defence that "
        "sees reports alone finds more at its false positives. LDPGuard without targets divides two small numbers, so its result is not a "
        "share. Peel's devices run Harmony for means in place of Laplace. For tampering on the wire, reports are counted. "
        "A dash: the defence does not apply, or gives no value. Defences without a value, here or in the paper, are left out: "
        f"{_silent(silent, len(scenes))}.",
        ("mechanism", "attack", "defence", "acts on", "printed", "here", "recall", "false positives"),
        rows,
        plot="ratios",
    )


def _silent(rows: Sequence[Mapping[str, Any]], scenes: int) -> str:
    """Return the defences that give no value, with their scenes."""
    attacks: dict[str, list[str]] = {}
    for row in rows:
        attacks.setdefault(row["defence"], []).append(f"{row['mechanism']} {row['attack']}")
    whole = [defence for defence, named in attacks.items() if len(named) == scenes]
    partly = [defence for defence, named in attacks.items() if len(named) < scenes]
    said = [f"throughout {'; '.join(whole)}"] * bool(whole) + [f"in some rows {'; '.join(partly)}"] * bool(partly)
    return ". Also ".join(said) or "none"


def _recovery(figures: Figures) -> Section:
    errors: dict[str, dict[str, str]] = {}
    for row in figures["ratio_estimates"]:
        if row["error"] is not None:
            errors.setdefault(row["defence"], {})[f"{row['mechanism']} {row['attack']}"] = cells.interval(
                cells.percent(row["error"])
            )
    scenes = list(dict.fromkeys(scene for row in errors.values() for scene in row))
    return Section(
        "recovery",
        "(a) Error of what is published after a defence",
        "Largest error of a statistic in percent of its whole range, for defences that publish their own estimates. Defences that recover "
        "frequencies name no device. LDPRecover knows the true share of fake devices. LDPGuard collects twice, with half the budget each. "
        "In the columns none the error is honest noise.",
        ("defence", *scenes),
        [(defence, *(row.get(scene, "-") for scene in scenes)) for defence, row in errors.items()],
    )


def _rivals(figures: Figures) -> Section:
    return Section(
        "rivals",
        "(a) The defences",
        "Reimplemented from their papers and, where published, their programs. They are correct rather than complete. Their thresholds are "
        "fixed beforehand and not fitted to these results: one false alarm in a hundred runs of honest devices (DETECT, Diffstats), three "
        "standard deviations (expert, PoisonCatcher without labels), or learned from its labels (PoisonCatcher with labels).",
        ("defence", "from", "knows", "differs from its paper"),
        [(rival.name, rival.source or "-", rival.assumes or "nothing", rival.departs or "-") for rival in RIVALS],
    )


# ---- the paper's encoder ----


def _claims(figures: Figures) -> Section:
    return Section(
        "claims",
        "The paper's claims and this run",
        "Peel is based on PEEL (Shuai et al. 2025). The command at the top prints this run's values again.",
        ("claim", "in the paper", "in this run"),
        claims(figures),
    )


def _residual(figures: Figures) -> Section:
    rows = [
        (
            row["attack"], row["place"], row["knows"], str(row["k"]), cells.share(row["exposed"]), cells.share(row["exposed_exact"]),
            cells.share(row["unseen"]),
        )
        for row in figures["paper"]["exposures"]
    ]  # fmt: skip
    return Section(
        "residual",
        "Exposed by the paper's residual",
        "The paper's encoder as written: Gaussian projection, normalisation within a vector, ceil(log2(k-1)) bits a coordinate, and a "
        "threshold that no honest report exceeds. Rule poisoning (another budget) leaves no trace, as normalisation removes the scale. "
        "Another report, a negated one or a replay is a codeword like any other.",
        ("attack", "acts on", "knows", "k", "exposed", "exposed without rounding", "changed and accepted"),
        rows,
    )


def _wire(figures: Figures) -> Section:
    rows = [
        (
            str(row["k"]), str(row["bits"]), cells.plain(row["residual"]), cells.plain(row["least_residual"]), cells.share(row["wrong"]),
            f"{row['exact_residual']:.0e}",
        )
        for row in figures["paper"]["wire"]
    ]  # fmt: skip
    return Section(
        "wire",
        "Loss on the paper's wire",
        "Worst residual of honest reports relative to their norm, which should be 0. The projection's condition amplifies the rounding "
        "to ceil(log2(k-1)) bits. Peel's sparse ternary projection is sent exactly, in 408 bits at k = 252.",
        (
            "k",
            "bits",
            "median projection",
            "best projection",
            "honest reports decoded wrongly",
            "without rounding",
        ),
        rows,
    )


# ---- (d), (c) ----


def _accuracy(figures: Figures) -> Section:
    rows = [
        (
            row["mechanism"], "1-sparse" if row["natural"] else "dense", str(row["size"]), cells.close(row["plain"]),
            cells.small(row["plain_theory"]), cells.close(row["free"]), cells.small(row["free_theory"]), cells.close(row["peel"]),
            cells.small(row["peel_theory"]),
        )
        for row in figures["accuracy"]
    ]  # fmt: skip
    return Section(
        "accuracy",
        "(d) Squared error with and without PEEL",
        f"Mean squared error over statistics, measured with {figures['accuracy'][0]['seeds']} seeds and by theory. Plain is the mechanism "
        "alone. 1-sparse are the paper's reports, which would have to carry a magnitude. Through the encoder are reports of constant "
        f"magnitude, as frames carry them. Each of {figures['accuracy'][0]['reports']:,} rows is reported once; means are on [-1, 1].",
        (
            "mechanism",
            "reports",
            "statistics",
            "plain",
            "theory",
            "1-sparse",
            "theory",
            "through the encoder",
            "theory",
        ),
        rows,
        plot="accuracy",
    )


def _overheads(figures: Figures) -> Section:
    rows = [
        (
            row["scheme"], f"{row['bits']:,}", row["bits_printed"] or "-", cells.plain(row["ms"], 5), row["ms_printed"] or "-",
            f"{row['cycles']:,}" if row["cycles"] else "-", row["note"],
        )
        for row in figures["overheads"]
    ]  # fmt: skip
    return Section(
        "overheads",
        "(c) Cost of defences per report on a device",
        f"Bits are by each scheme's formula ({figures['overheads'][0]['sizes']}). Milliseconds are CPU time with real primitives on this "
        "machine, the least of several runs. Cycles are on an emulated Pico. Printed is the paper's value. A dash: not printed, or not in "
        "MicroPython's build.",
        ("scheme", "bits", "printed", "ms here", "ms printed", "cycles", "note"),
        rows,
        plot="overheads",
    )


def _guarantees(figures: Figures) -> Section:
    return Section(
        "guarantees",
        "(c) Costs and guarantees against devices that bias their answers",
        "All that a device sends and computes for a report. Guarantees of other schemes are as in their papers.",
        ("scheme", "bytes", "cycles", "guarantee"),
        [
            (row["scheme"], f"{row['bits'] / 8:,.0f}", f"{row['cycles']:,}" if row["cycles"] else "-", row["guarantee"])
            for row in figures["overheads"]
        ],
    )


def _formulas(figures: Figures) -> Section:
    return Section(
        "formulas",
        "(c) Formulas behind the costs",
        "Messages, formulas, operations and sizes of the other schemes are those of the PEEL paper, not recounted from the schemes' own "
        "papers. Commitments, proofs and transfers are composed of their primitives.",
        ("scheme", "from", "sent", "bits", "computed"),
        [
            (row["scheme"], row["source"], row["content"], row["bits_formula"], row["operations"])
            for row in figures["overheads"]
        ],
    )


def _dropped(figures: Figures) -> Section:
    data = figures["data"]
    used = [(name, "used") for name in data["columns"]] + [(data["categories_of"], "used for frequencies")]
    return Section(
        "data",
        "The data",
        f"{data['source']} has {data['rows']:,} rows; {data['rows_dropped']:,} with an empty cell were left out. Numeric columns are "
        "scaled to [-1, 1] by their least and greatest value.",
        ("column", "use"),
        [*used, *((name, f"left out: {why}") for name, why in data["dropped"].items())],
    )
