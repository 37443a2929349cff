# SPDX-License-Identifier: MIT
"""The lab's figures as tables with a title and a few sentences: for the terminal, the page and the docs alike.

What is not exposed comes before what is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peel_gateway.model.verdict import LAYERS
from peel_tools.lab import cells
from peel_tools.lab.claims import claims
from peel_tools.lab.rivals import RIVALS

__all__ = ["Section", "sections", "summary"]

Figures = Mapping[str, Any]
Row = Sequence[str]


@dataclass(frozen=True)
class Section:
    """A table and what to know about it."""

    key: str
    title: str
    text: str
    header: Row
    rows: Sequence[Row]
    plot: str | None = None
    """The plot that belongs to it, by name."""


def summary(figures: Figures) -> str:
    """The run in three sentences."""
    run, data = figures["run"], figures["data"]
    refused, honest = figures["honest_reports_refused"], figures["honest_reports"]
    late = figures["adaptive_shift_over_liar"]["harmony"]["10000"]
    return (
        f"{cells.share(run['share'])} of {run['devices']} devices attack, or of their reports are attacked, at epsilon {run['epsilon']:g}; "
        f"{len(run['seeds'])} seed{'s' if len(run['seeds']) > 1 else ''}; data: {data['source']}, {data['rows']:,} rows, "
        f"{len(data['columns'])} attributes and {data['categories']} categories. "
        f"Of {honest:,} honest reports {refused or 'none'} {'were' if refused > 1 else 'was'} refused or withdrawn"
        f" (with 95% confidence fewer than one in {1 / figures['false_positive_limit']:,.0f}). "
        f"An insider who knows everything and stays unexposed does {late:.2f} times a liar's harm per report over 10,000 reports, and "
        f"never more than {figures['adaptive_shift_over_bound']:.1%} of what is proved to be the most for who wastes no report, "
        "whatever the target."
    )


def sections(figures: Figures) -> list[Section]:
    """All tables in the order in which they should be read."""
    makers: Sequence[Callable[[Figures], Section]] = (
        _not_exposed, _exposed, _by_layer, _scores, _attacks, _insider, _ratios, _recovery, _rivals, _claims, _residual, _wire, _accuracy,
        _overheads, _formulas, _dropped,
    )  # fmt: skip
    return [make(figures) for make in makers]


# ---- (b) attacks ----


def _not_exposed(figures: Figures) -> Section:
    rows = [
        (
            cells.name(row),
            row["mechanism"],
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
        "What is not exposed",
        "These attacks get through, all or most of the time. What they shift is held against the worst lie that the same devices could "
        "have told about their readings, about any attribute or category: 1 is as much, and by chance a little more. Intervals, here "
        "and below, are those of a mean over seeds, 95%; a cell without one is the same with every seed.",
        ("attack", "mechanism", "acts on", "exposed", "shift over a liar's", "why nothing can"),
        rows,
        plot="shifts",
    )


def _exposed(figures: Figures) -> Section:
    rows = [
        (
            cells.name(row), row["mechanism"], row["place"], row["layer"], cells.rate(row["exposure"]), cells.devices(row),
            cells.delay(row),
            *(cells.times(row[f"{when}_over_liar"]) for when in ("undefended", "before", "after")),
        )
        for row in figures["attacks"]
        if row["layer"] is not None
    ]  # fmt: skip
    return Section(
        "exposed",
        "(b) What is exposed",
        "Share of poisoned reports that do not count in the end: refused, absorbed as repetitions, or withdrawn with their device. The "
        "delay is in poisoned reports of a device, the median and the slowest. Shifts of the worst figure are over those of the worst lie "
        "about any figure: if whatever opens counted (0.00 if none of it opens, or says anything), with what passed as a single "
        "report, and as published once devices were withdrawn. False positives in all of these "
        f"trials together: {figures['honest_reports_refused']:,} of {figures['honest_reports']:,} honest reports.",
        (
            "attack", "mechanism", "acts on", "layer", "exposed", "devices exposed", "delay", "undefended", "before withdrawal",
            "published",
        ),
        rows,
        plot="delays",
    )  # fmt: skip


def _by_layer(figures: Figures) -> Section:
    labels = [layer.label for layer in LAYERS]
    rows = [
        (cells.name(row), row["mechanism"], *(cells.share(row["layers"][label]) if label in row["layers"] else "" for label in labels))
        for row in figures["attacks"]
    ]  # fmt: skip
    return Section(
        "layers",
        "(b) Attack by layer",
        "The layer that objected to poisoned reports when they came. Statistics judge a device's batch as a whole; what comes after it was "
        "exposed is withdrawn, and so is what came before, which no layer objected to. The same bytes once more, as the "
        "beginnings of frames often are, are absorbed as repetitions, by freshness.",
        ("attack", "mechanism", *labels),
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
        "With intervals over seeds. Exposable are attacks that a layer is there for; who forges in another's name is refused, not named. "
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
        "What each of them does, and what it takes. How it is exposed, or why nothing can, is what the record says; the tables say what "
        "came out.",
        ("attack", "acts on", "takes somebody who", "what is done", "what exposes it", "how, or why not"),
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
        "(e) What an insider can do who knows everything",
        f"Harm per report over a liar's, on average over n reports without ever being exposed, with {_sizes(figures)}: what we know to do, "
        "and what is proved that nobody does better. What we know is the best of three ways to play, once each; a sleeper, who was honest "
        "for 100,000 reports first, has as many for each kind of life that he led. Steady is who wastes no reports on confusing the bets "
        "on his own past, like those here. Plus and minus have purses of the same size, so that one row stands for both. Of a set of "
        "hashed categories, every report that says what most of them hash to counts alike. A dash: "
        "nothing is proved but the cap.",
        (
            "mechanism", "target", "n", "cap", "newcomer", "bound, if steady", "bound, anybody", "sleeper", "bound, any sleeper",
        ),
        rows,
        plot="insider",
    )  # fmt: skip


def _sizes(figures: Figures) -> str:
    sizes = {row["mechanism"]: row["k"] for row in figures["insider"]}
    attributes = f"{sizes['harmony']} attribute{'s' if sizes['harmony'] > 1 else ''}"
    return f"{attributes} and {sizes['krr']} categories"


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
        "What the paper prints for the weather data, and what comes out here. A share says how many, not who: recall and false positives "
        "are those of devices; where the attack is none, 0 is the truth. The best possible test is told every reading and the attack: no "
        "defence that looks at reports alone finds more at its false positives. LDPGuard without targets divides two small numbers: "
        "what comes out is no share. Peel's devices run Harmony for means, in place of Laplace; of tampering on the wire, reports are "
        "counted in place of devices. A dash: the defence does not apply, or does not say. Left "
        f"out where they say nothing, and nothing is printed: {_silent(silent, len(scenes))}.",
        ("mechanism", "attack", "defence", "acts on", "printed", "here", "recall", "false positives"),
        rows,
        plot="ratios",
    )


def _silent(rows: Sequence[Mapping[str, Any]], scenes: int) -> str:
    """Defences that have nothing to say, and to what."""
    attacks: dict[str, list[str]] = {}
    for row in rows:
        attacks.setdefault(row["defence"], []).append(f"{row['mechanism']} {row['attack']}")
    return (
        "; ".join(
            f"{defence} ({'throughout' if len(named) == scenes else ', '.join(named)})"
            for defence, named in attacks.items()
        )
        or "none"
    )


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
        "(a) What is published after a defence",
        "Largest error of a figure in percent of its whole range, for defences that publish something of their own: those that recover "
        "frequencies name nobody. LDPRecover is told the true share of fake devices. LDPGuard collects twice, with half the budget each. "
        "In the columns none all of it is honest noise.",
        ("defence", *scenes),
        [(defence, *(row.get(scene, "-") for scene in scenes)) for defence, row in errors.items()],
    )


def _rivals(figures: Figures) -> Section:
    return Section(
        "rivals",
        "(a) The defences",
        "Written anew from what their papers describe and, where there is any, from what their published programs do; correct rather than "
        "complete. Their thresholds are fixed beforehand, never fitted to what is shown: one false alarm in a hundred runs of honest "
        "devices (DETECT, Diffstats), three standard deviations (expert, PoisonCatcher without labels), or what its labels teach it.",
        ("defence", "from", "is told", "differs from its paper"),
        [(rival.name, rival.source or "-", rival.assumes or "nothing", rival.departs or "-") for rival in RIVALS],
    )


# ---- the paper's encoder ----


def _claims(figures: Figures) -> Section:
    return Section(
        "claims",
        "What the paper says, and what this run finds",
        "PEEL (Shuai et al. 2025) is where this system comes from. Where figures differ, the command at the top prints them again.",
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
        "What the paper's residual exposes",
        "The paper's encoder as it is written: Gaussian projection, normalisation within a vector, ceil(log2(k-1)) bits a coordinate, and "
        "a threshold that no honest report exceeds. Rule poisoning (another budget) leaves no trace, because normalisation takes the "
        "scale; another report, a negated one or a replay is a codeword like any other.",
        ("attack", "acts on", "knows", "k", "exposed", "exposed if nothing is rounded", "believed although changed"),
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
        "Whether the paper's wire is lossless",
        "Worst residual of honest reports relative to their norm, which should be 0: rounding to ceil(log2(k-1)) bits is amplified by the "
        "condition of the projection. Peel's sparse ternary projection goes over the wire exactly, in 408 bits at k = 252.",
        (
            "k",
            "bits",
            "median projection",
            "best projection",
            "honest reports decoded wrongly",
            "if nothing is rounded",
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
        f"Mean squared error over figures, measured with {figures['accuracy'][0]['seeds']} seeds and by theory: of the mechanism alone; of "
        "the paper's 1-sparse reports, which would have to carry a magnitude; and of reports of constant magnitude through the encoder, "
        f"which frames carry. Each of {figures['accuracy'][0]['reports']:,} rows is reported once; means are on [-1, 1].",
        ("mechanism", "reports", "figures", "plain", "theory", "1-sparse", "theory", "through the encoder", "theory"),
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
        "(c) What defences cost a device per report",
        f"Bits by the formula of each ({figures['overheads'][0]['sizes']}), milliseconds of CPU with real primitives on this machine, the "
        "least of several runs, cycles on an emulated Pico; beside them what the paper prints. A dash: not printed, or not in "
        "MicroPython's build.",
        ("scheme", "bits", "printed", "ms here", "ms printed", "cycles", "note"),
        rows,
        plot="overheads",
    )


def _formulas(figures: Figures) -> Section:
    return Section(
        "formulas",
        "(c) What is counted",
        "Messages, formulas and operations of the others are those that the PEEL paper states for them, with its sizes: they are not "
        "recounted from the schemes' own papers. Commitments, proofs and transfers are composed of the primitives that they consist of.",
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
        f"{data['source']}: {data['rows']:,} rows; {data['rows_dropped']:,} were left out for an empty cell. Numeric columns are scaled "
        "to [-1, 1] by their least and greatest value.",
        ("column", "what became of it"),
        [*used, *((name, f"left out: {why}") for name, why in data["dropped"].items())],
    )
