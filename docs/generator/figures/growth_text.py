# SPDX-License-Identifier: MIT
"""What growth costs, and what others do with the same task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from docs.generator.figures.record import figures
from docs.generator.figures.targets import target_table
from docs.generator.figures.words import paragraph, rounded, run_sentence, table

__all__ = ["bits", "growth", "peers", "start"]

_AXES = {
    "registered": "registered devices, the first number of which speak",
    "speaking": "devices that speak, of as many as the last number",
    "log_rows": "reports in the log",
    "exposures": "exposures held",
    "page": "a page that is open",
    "k": "attributes",
}
_TASKS = {"krr": "kRR", "hashing": "hashing"}


def growth() -> str:
    """Throughput and memory along each axis."""
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
    header = ["what grows", "how many: reports per second of CPU time", "memory, first and last", "kept"]
    return f"{run_sentence('growth')}\n{table(header, rows)}\n{target_table('growth')}"


def _point(axis: str, point: Mapping[str, Any]) -> str:
    size = ("yes" if point[axis] else "no") if axis == "page" else f"{point[axis]:,}"
    return f"{size}: {rounded(point['reports_per_cpu_s'])}"


def _memory(axis: Mapping[str, Any]) -> str:
    first, *_, last = axis["points"]
    return f"{first['rss_mb']} MB, {last['rss_mb']} MB"


def start() -> str:
    """A whole gateway with very many registered devices."""
    run = figures("growth")["start"]
    each = run["rss_mb"] * 1024 * 1024 / run["registered"]
    return paragraph(
        f"{run['registered']:,} registered devices: their list of {rounded(run['devices_file_mb'])} MB is written in "
        f"{run['provision_s']:g} s, and a gateway is there after {run['start_s']:g} s ({run['start_cpu_s']:g} s of "
        f"CPU time) with {run['rss_mb']} MB resident, {run['rss_peak_mb']} MB at most: {each:.0f} bytes per device, "
        "the program included."
    )


def peers() -> str:
    """Rates beside the fastest of other libraries."""
    run = figures("peers")
    text = (
        f"Shares of categories at epsilon {run['krr']['epsilon']:g}, reports per second of CPU time on one core, all "
        f"in one run: {run['krr']['categories']} categories by kRR ({run['krr']['reports']:,} reports), "
        f"{run['hashing']['categories']} by local hashing ({run['hashing']['reports']:,}). The others are pure-ldp "
        "and multi-freq-ldpy; the fastest of them stands here."
    )
    header = ["", "others", "ours, bare", "", "ours, sealed", ""]
    return f"{paragraph(text)}\n{run_sentence('peers')}\n{table(header, _peer_rows(run))}\n{target_table('peers')}"


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
    """Bits per report beside Prio3's."""
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
