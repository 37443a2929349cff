# SPDX-License-Identifier: MIT
"""Figures of growth, and of other libraries with the same task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from docs.generator.figures.record import figures
from docs.generator.figures.words import paragraph, rounded, run_sentence, table

__all__ = ["bits", "growth", "peers", "start"]

_AXES = {
    "registered": "registered devices; as many as the first number are active",
    "speaking": "active devices; as many as the last number are registered",
    "log_rows": "reports in the log",
    "exposures": "exposures held",
    "page": "an open page",
    "k": "attributes",
}
_TASKS = {"krr": "kRR", "hashing": "hashing"}


def growth() -> str:
    """Return throughput and memory along each axis."""
    run = figures("growth")
    rows = [
        [
            title,
            "; ".join(_point(axis, point) for point in run[axis]["points"]),
            _memory(run[axis]),
            f"{run[axis]['largest_over_smallest']:.2f}",
        ]
        for axis, title in _AXES.items()
    ]
    header = ["what grows", "size: reports per second of CPU time", "memory, first and last", "kept"]
    return f"{run_sentence('growth')}\n{table(header, rows)}"


def _point(axis: str, point: Mapping[str, Any]) -> str:
    size = ("yes" if point[axis] else "no") if axis == "page" else f"{point[axis]:,}"
    return f"{size}: {rounded(point['reports_per_cpu_s'])}"


def _memory(axis: Mapping[str, Any]) -> str:
    first, *_, last = axis["points"]
    return f"{first['rss_mb']} MB, {last['rss_mb']} MB"


def start() -> str:
    """Return the start of a gateway with very many registered devices."""
    run = figures("growth")["start"]
    each = run["rss_mb"] * 1024 * 1024 / run["registered"]
    return paragraph(
        f"With {run['registered']:,} registered devices, writing their file of {rounded(run['devices_file_mb'])} MB takes "
        f"{run['provision_s']:g} s. A gateway is ready after {run['start_s']:g} s ({run['start_cpu_s']:g} s of CPU time) "
        f"with {run['rss_mb']} MB resident and {run['rss_peak_mb']} MB at its peak: {each:.0f} bytes per device, with the "
        "program."
    )


def peers() -> str:
    """Return rates beside the fastest of other libraries."""
    run = figures("peers")
    text = (
        f"Shares of categories at epsilon {run['krr']['epsilon']:g}, reports per second of CPU time on one core, all "
        f"in one run: {run['krr']['categories']} categories by kRR ({run['krr']['reports']:,} reports), "
        f"{run['hashing']['categories']} by local hashing ({run['hashing']['reports']:,}). The others are pure-ldp "
        "and multi-freq-ldpy; the table has the fastest of them."
    )
    header = ["", "others", "ours, bare", "", "ours, sealed", ""]
    return f"{paragraph(text)}\n{run_sentence('peers')}\n{table(header, _peer_rows(run))}"


def _peer_rows(run: Mapping[str, Any]) -> Iterator[list[str]]:
    for task, title in _TASKS.items():
        found = run[task]
        for step in ("encode", "aggregate"):
            rate = f"{step}_per_s"
            fastest = max(found["theirs"], key=lambda name: found["theirs"][name][rate])
            ours = [
                cell
                for kind in ("bare", "sealed")
                for cell in (rounded(found["ours"][kind][rate]), f"{found['ratio'][kind][rate]:.1f} times")
            ]
            yield [f"{title}, {step}", f"{rounded(found['theirs'][fastest][rate])} ({fastest})", *ours]


def bits() -> str:
    """Return the bits per report beside Prio3's."""
    rows = []
    for name, each in figures("peers")["bits_per_report"].items():
        cells = [f"{each[kind]:,}" for kind in ("krr", "hashing", "prio3_histogram")]
        rows.append(
            [
                f"{name.removeprefix('k')} categories",
                *cells,
                f"{each['prio3_over_krr']:.0f} and {each['prio3_over_hashing']:.0f} times",
            ]
        )
    return table(["bits per report", "kRR", "hashing", "Prio3Histogram", "over kRR, over hashing"], rows)
