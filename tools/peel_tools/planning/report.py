# SPDX-License-Identifier: MIT
"""A plan, as one table of plain values (JSON) and as text for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from peel_gateway.planning.outlook import YEAR_DAYS, outlook, rounded
from peel_gateway.planning.solve import Solved
from peel_gateway.planning.task import DAY, Task
from peel_tools.planning.costs import Battery, air_bytes, flash_bytes, report_bytes, stored_bytes
from peel_tools.planning.exposure import harm, waits

__all__ = ["plan", "spoken", "text"]


def plan(solved: Solved, accuracy: float | None = None, battery: Battery | None = None) -> dict[str, Any]:
    """Everything that follows from a task: the gateway's formulas, and what is played, sent and drawn."""
    task = solved.task
    found = outlook(solved, accuracy)
    later = {str(n): rounded(ratio) for n, ratio in harm(task.subject, task.epsilon).items()}
    insider = found["insider"] | {"ratio": found["insider"]["ratio"] | later}
    return found | {
        "exposure": [_wait(task, wait.attack, wait.reports) for wait in waits(task.subject, task.epsilon)],
        "insider": insider,
        "bytes": _bytes(task),
        **({} if battery is None else {"battery_days": round(battery.days(task.interval_s), 1)}),
    }


def _wait(task: Task, attack: str, reports: int | None) -> dict[str, Any]:
    hours = None if reports is None else rounded(reports * task.interval_s / 3600)
    return {"attack": attack, "reports": reports, "hours": hours}


def _bytes(task: Task) -> dict[str, Any]:
    air = air_bytes(task)
    return {
        "frame": report_bytes(task.subject, task.epsilon),
        "air_per_report": air,
        "air_per_device_and_day": round(air * task.reports_per_day),
        "flash_per_device_and_day": round(flash_bytes(task) * task.reports_per_day),
        "store_per_day": round(stored_bytes() * task.reports_per_second * DAY),
        "reports_per_second": rounded(task.reports_per_second),
    }


# ---- for people ----


def spoken(hours: float | None) -> str:
    """A time as people say it."""
    if hours is None:
        return "never seen"
    for unit, size in (("years", 24 * YEAR_DAYS), ("days", 24), ("hours", 1), ("minutes", 1 / 60)):
        if hours >= 2 * size:
            return f"{hours / size:,.0f} {unit}" if hours >= 10 * size else f"{hours / size:.1f} {unit}"
    return f"{math.ceil(hours * 3600)} s"


def text(found: Mapping[str, Any]) -> str:
    """A plan in words and columns."""
    return "\n".join(map(_folded, _lines(found))) + "\n"


def _folded(line: str) -> str:
    """A line within 80 columns, what goes on a little further in."""
    return line if len(line) <= 80 else "\n".join(wrap(line, 80, subsequent_indent=" " * 4))


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    task = found["task"]
    what = _counted(task["size"], "attribute") if task["mechanism"] == "harmony" else f"{task['size']:,} categories"
    yield (
        f"{_counted(task['devices'], 'device')}, {what} ({task['mechanism']}), a report every {spoken(task['interval_s'] / 3600)}, "
        f"epsilon {task['epsilon']:g} each"
    )
    for name, why in (("found", "from what you asked for"), ("assumed", "because nothing was said")):
        if task[name]:
            yield f"  {', '.join(task[name])}: {why}"
    yield from _accuracy_lines(found["accuracy"])
    yield from _privacy_lines(found["privacy"])
    yield from _exposure_lines(found["exposure"], found["insider"])
    size = found["bytes"]
    yield "\nCost"
    yield f"  {size['frame']} bytes a frame, {size['air_per_report']} on the air, {size['air_per_device_and_day']:,} a day for each device"
    yield (
        f"  {size['flash_per_device_and_day']:,} bytes a day onto its flash; {size['reports_per_second']:g} reports a second at the "
        f"gateway, whose store grows by {size['store_per_day']:,} bytes a day at most"
    )
    if "battery_days" in found:
        yield f"  the battery lasts {spoken(found['battery_days'] * 24)}"
    if found["advice"]:
        yield "\nAdvice"
        yield from (f"  - {sentence}" for sentence in found["advice"])


def _accuracy_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield "\nAccuracy (half of a 95% interval, of the range, at worst)"
    yield "  " + ", ".join(
        f"±{half:.1%} in {'an' if name == 'hour' else 'a'} {name}" for name, half in found["half_width"].items()
    )
    for row in found["until"]:
        yield (
            f"  ±{100 * row['half_width']:.3g}%".ljust(10)
            + f"{_counted(row['reports'], 'report'):>22}   {spoken(row['hours'])}"
        )


def _privacy_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"\nPrivacy (of one device; epsilon, and epsilon at delta {found['delta']:g})"
    for name in ("report", "day", "year"):
        row = found[name]
        yield f"  {name:8}{_counted(row['reports'], 'report'):>22}   {row['epsilon']:,g}   {row['epsilon_at_delta']:,g}"


def _exposure_lines(waiting: list[Mapping[str, Any]], insider: Mapping[str, Any]) -> Iterator[str]:
    yield "\nExposed after"
    for row in waiting:
        reports = "not seen" if row["reports"] is None else _counted(row["reports"], "report")
        yield f"  {reports:>16}   {spoken(row['hours']):>12}   {row['attack']}"
    ratio = insider["ratio"]
    later = ", ".join(f"{value:g} over {int(n):,} reports" for n, value in ratio.items() if n != "cap")
    yield (
        f"  Until then an insider moves a figure by {insider['insider_moves_at_first']:.2%} of its range, a sensor that lies by "
        f"{insider['liar_moves']:.2%}."
    )
    yield f"  Unexposed, who knows everything does {ratio['cap']:g} times a liar's harm at first, {later}."
