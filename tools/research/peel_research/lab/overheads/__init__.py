# SPDX-License-Identifier: MIT
"""A client's costs of defences per report: bits of their message formats, time of real primitives, cycles on an emulated Pico."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from peel_research.lab.overheads.primitives import (
    PAPER_MS,
    MissingError,
    Primitive,
    cycles_of,
    library_ms,
    pico_cycles,
    plain_ms,
)
from peel_research.lab.overheads.schemes import SCHEMES, SIZES, Scheme, Sizes

__all__ = ["OverheadRow", "guarantees", "overheads"]


_COMPARED = ("VGRR", "Secure OLH", "OT-HCMS", "Peel, this project, k = 16", "Peel, verified coins, k = 16")


@dataclass(frozen=True)
class OverheadRow:
    """A scheme in the tables of communication and computation, printed and recomputed."""

    scheme: str
    source: str
    content: str
    bits_formula: str
    bits: int
    """By the formula, at these sizes."""
    bits_printed: str
    """In the paper; empty for ours."""
    operations: str
    ms_printed: str
    ms_by_its_units: float | None
    """The operations at the unit costs that the paper assumes."""
    ms: float | None
    """The same operations with real primitives on this machine; None without ``cryptography``."""
    cycles: int | None
    """On an emulated Pico; None in a quick run, and where MicroPython's build lacks a primitive."""
    sizes: str
    guarantee: str
    """The protection against a device that biases its answer; of other schemes, by their papers."""
    note: str
    """Disagreements between printed figures and formula, and other remarks."""


def overheads(quick: bool) -> list[OverheadRow]:
    """All schemes. A quick run takes no cycles: those need emulated boards, and minutes."""
    ms = plain_ms(quick)
    others, ms_note = _attempted(lambda: library_ms(quick, ms[Primitive.HASH]))
    cycles, cycles_note = (None, "") if quick else _attempted(pico_cycles)
    notes = [text for text in (ms_note, cycles_note) if text]
    return [_row(scheme, SIZES, ms | (others or {}), cycles, notes) for scheme in SCHEMES]


def guarantees(device: Mapping[str, Any]) -> list[tuple[str, float, int | None, str]]:
    """Return schemes whose coins cannot be biased, and ours: bytes, cycles and guarantee, from the output of ``peel bench device``."""
    cycles = cycles_of(device)
    return [
        (scheme.name, scheme.bits(SIZES) / 8, None if spent is None else int(spent), scheme.guarantee)
        for scheme in SCHEMES
        if scheme.name in _COMPARED
        for spent in [_total(scheme.operations(SIZES), cycles)]
    ]


def _attempted(measure: Callable[[], dict[Primitive, float]]) -> tuple[dict[Primitive, float] | None, str]:
    """The costs, or None and why there are none."""
    try:
        return measure(), ""
    except MissingError as error:
        return None, str(error)


def _row(
    scheme: Scheme,
    sizes: Sizes,
    ms: Mapping[Primitive, float],
    cycles: Mapping[Primitive, float] | None,
    notes: list[str],
) -> OverheadRow:
    counts = scheme.operations(sizes)
    spent = _total(counts, cycles)
    return OverheadRow(
        scheme=scheme.name,
        source=scheme.source,
        content=scheme.content,
        bits_formula=scheme.bits_formula,
        bits=scheme.bits(sizes),
        bits_printed=scheme.bits_printed,
        operations=" + ".join(f"{count} {primitive.value}" for primitive, count in counts.items()),
        ms_printed=scheme.ms_printed,
        ms_by_its_units=_rounded(_total(counts, PAPER_MS), 3),
        ms=_rounded(_total(counts, ms), 5),
        cycles=None if spent is None else int(spent),
        sizes=_stated(sizes),
        guarantee=scheme.guarantee,
        note="; ".join([*_disagreements(scheme, sizes), *([scheme.note] if scheme.note else []), *notes]),
    )


def _total(counts: Mapping[Primitive, int], costs: Mapping[Primitive, float] | None) -> float | None:
    """None where the cost of a step is not known."""
    if costs is None or not counts.keys() <= costs.keys():
        return None
    return sum(count * costs[primitive] for primitive, count in counts.items())


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _disagreements(scheme: Scheme, sizes: Sizes) -> list[str]:
    """Return the printed figures that do not follow from their formula."""
    found = []
    if scheme.bits_printed and scheme.bits(sizes) != scheme.bits_printed_as(sizes):
        found.append(f"printed {scheme.bits_printed_as(sizes):,} bits, the formula gives {scheme.bits(sizes):,}")
    units = _total(scheme.operations(sizes), PAPER_MS)
    if scheme.ms_printed and units is not None and not 0.9 < units / scheme.ms_printed_as(sizes) < 1.1:
        found.append(f"printed {scheme.ms_printed_as(sizes):g} ms, its own unit costs give {units:g}")
    return found


def _stated(sizes: Sizes) -> str:
    return f"d = {sizes.d}, l = {sizes.l}, n = {sizes.n}, k = {sizes.k}, tau = {sizes.tau}"
