# SPDX-License-Identifier: MIT
"""The planner's report: a plan as a table of plain values (JSON) and as text, with its bytes and battery life."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from textwrap import wrap
from typing import Any

from peel_core import Profile
from peel_core.frame import frame_bytes
from peel_core.odds import EPSILON_ONE
from peel_core.profile import DEFAULT_WIDTH, even_interval
from peel_gateway.planning.outlook import YEAR_DAYS, outlook, rounded
from peel_gateway.planning.solve import Solved
from peel_gateway.planning.task import DAY, Subject, Task
from peel_gateway.storage.records import RECORD
from peel_tools.planning.insider import harm, waits
from peel_tools.profiles.options import options_of

__all__ = [
    "Battery",
    "air_bytes",
    "counted",
    "flash_bytes",
    "plan",
    "quota_for",
    "report_bytes",
    "spoken",
    "stored_bytes",
    "text",
]

_FLEET_NAME_BYTES = 10
_TOPIC_BYTES = len("peel/v1//00/00000000/report") + _FLEET_NAME_BYTES
_PUBLISH_BYTES = 2 + 2 + 2
"""Fixed header, length of the topic, packet identifier."""
_PUBACK_BYTES = 4
_RECEIPT_BYTES = 4 + len("peel/v1//00/00000000/receipt") + _FLEET_NAME_BYTES + 19
"""A PUBLISH at QoS 0 around a receipt without gaps."""
_CHECKSUM_BYTES = 4
_HOURS_PER_DAY = 24
_CONTINUED = " \\"
_SAME_INTERVAL = 0.001
_PERIODS = (60, 3600, DAY, 30 * DAY, 10**8)
_MOST_QUOTA = 10**6


def report_bytes(subject: Subject, epsilon: float) -> int:
    """Return the size of a frame in a profile of the default width."""
    return frame_bytes(max(DEFAULT_WIDTH, subject.symbols(epsilon)))


def air_bytes(task: Task) -> int:
    """Return the MQTT bytes of one report with acknowledgement and receipt, without TCP, IP and TLS."""
    return report_bytes(task.subject, task.epsilon) + _TOPIC_BYTES + _PUBLISH_BYTES + _PUBACK_BYTES + _RECEIPT_BYTES


def flash_bytes(task: Task) -> int:
    """Return the bytes of a report in the outbox. The ledger and LittleFS itself add a few."""
    return report_bytes(task.subject, task.epsilon) + _CHECKSUM_BYTES


def stored_bytes() -> int:
    """Return the bytes of a new report in the gateway's log. Compressed with others it takes about a third."""
    return RECORD.itemsize


@dataclass(frozen=True)
class Battery:
    """A device that sleeps between its reports."""

    capacity_mah: float
    awake_ma: float
    awake_s: float
    """Seconds awake per report: joining the network, sending, waiting for the answer."""
    asleep_ma: float

    def days(self, interval_s: float) -> float:
        """Return how long it lasts, without self-discharge."""
        duty = min(1.0, self.awake_s / interval_s)
        return self.capacity_mah / (self.awake_ma * duty + self.asleep_ma * (1 - duty)) / _HOURS_PER_DAY


def plan(
    solved: Solved,
    accuracy: float | None = None,
    battery: Battery | None = None,
    profile: Profile | None = None,
    within_s: float = DAY,
) -> dict[str, Any]:
    """Return the whole plan of a task: the gateway's formulas, the games against attackers, the bytes and the battery."""
    task = solved.task
    found = outlook(solved, accuracy, within_s)
    later = {str(n): rounded(ratio) for n, ratio in harm(task.subject, task.epsilon).items()}
    insider = {**found["insider"], "ratio": {**found["insider"]["ratio"], **later}}
    return {
        **found,
        "exposure": [_wait(task, wait.attack, wait.reports) for wait in waits(task.subject, task.epsilon)],
        "insider": insider,
        "bytes": _bytes(task),
        "command": _command(solved.task, profile),
        **({} if battery is None else {"battery_days": round(battery.days(task.interval_s), 1)}),
    }


def _command(task: Task, profile: Profile | None) -> list[str]:
    """Return the words of the `peel profile new` that makes the planned profile; a given profile keeps its name and limits."""
    quota, period = quota_for(task.interval_s)
    words = ["peel profile new planned.toml" if profile is None else f"peel profile new {profile.name}.toml"]
    words += options_of(task.subject.attributes, int(task.epsilon * EPSILON_ONE))
    if profile is not None:
        if abs(task.interval_s - profile.interval_s) < _SAME_INTERVAL:
            quota, period = profile.quota, profile.period
        words += [f"--width {profile.width}"] if profile.width != max(DEFAULT_WIDTH, profile.k) else []
        words += [] if profile.lifetime is None else [f"--lifetime {profile.lifetime}"]
    return [*words, f"--epsilon {_shortest(task.epsilon)}", f"--quota {quota} --period {period}"]


def _shortest(epsilon: float) -> str:
    """Return epsilon with as few decimals as make the same profile."""
    units = int(epsilon * EPSILON_ONE)
    texts = (f"{epsilon:.{digits}f}" for digits in range(1, 8))
    return next((text for text in texts if int(Decimal(text) * EPSILON_ONE) == units), f"{units / EPSILON_ONE:.20f}")


def quota_for(interval_s: float) -> tuple[int, int]:
    """Return the least quota, with its period in seconds, that allows a report at each interval."""
    period = next((each for each in _PERIODS if each >= 8 * interval_s), _PERIODS[-1])
    place = bisect_left(range(1, _MOST_QUOTA), -interval_s, key=lambda quota: -even_interval(quota, period))
    return place + 1, period


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
    """Return a time in a readable unit."""
    if hours is None:
        return "never seen"
    for unit, size in (("years", 24 * YEAR_DAYS), ("days", 24), ("hours", 1), ("minutes", 1 / 60)):
        if hours >= 2 * size:
            return f"{hours / size:,.0f} {unit}" if hours >= 10 * size else f"{hours / size:.1f} {unit}"
    return f"{math.ceil(hours * 3600)} s"


def text(found: Mapping[str, Any]) -> str:
    """Return a plan as text."""
    return "\n".join([*map(_folded, _lines(found)), *_command_lines(found["command"])]) + "\n"


def _command_lines(command: list[str]) -> Iterator[str]:
    """Return a command that can be pasted into a shell, one option per line."""
    return (
        f"  {'  ' * bool(place)}{word}{_CONTINUED * (place + 1 < len(command))}" for place, word in enumerate(command)
    )


def _folded(line: str) -> str:
    """Wrap a line at 80 columns, with the rest indented."""
    return line if len(line) <= 80 else "\n".join(wrap(line, 80, subsequent_indent=" " * 4))


def counted(count: int, what: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    task = found["task"]
    yield (
        f"{counted(task['devices'], 'device')}, {counted(len(task['attributes']), 'attribute')}, {counted(task['questions'], 'question')}, "
        f"a report every {spoken(task['interval_s'] / 3600)}, epsilon {task['epsilon']:g} each"
    )
    shared = [f"{each['name']} {each['questions']}" for each in task["readings"] if each["questions"] > 1]
    if shared:
        others = "" if len(shared) == len(task["readings"]) else "; 1 about any other"
        yield f"  questions per reading (those of its attributes add up): {', '.join(shared)}{others}"
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
    yield "\nProfile"


def _accuracy_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"\nAccuracy (half of a 95% interval, of the range, at worst: {found['of']})"
    yield "  " + ", ".join(
        f"±{half:.1%} in {'an' if name == 'hour' else 'a'} {name}" for name, half in found["half_width"].items()
    )
    for row in found["until"]:
        yield (
            f"  ±{100 * row['half_width']:.3g}%".ljust(10)
            + f"{counted(row['reports'], 'report'):>22}   {spoken(row['hours'])}"
        )
    yield f"\nAfter {spoken(found['within_s'] / 3600)}, per attribute (at worst; questions, reports per question)"
    yield from _attribute_lines(found["attributes"])


def _attribute_lines(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    """Return one line per attribute; those that differ in nothing but their names share one."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["kind"], row["questions"], row["reports"], row["in_unit"], row["unit"]), []).append(row)
    for same in groups.values():
        first, more = same[0], len(same) - 1
        name = f"{first['name']} ({first['kind']})" + (f" and {more} more" if more else "")
        width = f"±{first['half_width']:.1%}"
        if first["in_unit"] is not None:
            width += f" = ±{first['in_unit']:g}{' ' if first['unit'] else ''}{first['unit']}"
        yield f"  {name:30} {width:20} {counted(first['questions'], 'question'):>12}, {first['reports']:.1%} each"


def _privacy_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"\nPrivacy (of one device; epsilon, and epsilon at delta {found['delta']:g})"
    for name in ("report", "day", "year"):
        row = found[name]
        yield f"  {name:8}{counted(row['reports'], 'report'):>22}   {row['epsilon']:,g}   {row['epsilon_at_delta']:,g}"


def _exposure_lines(waiting: list[Mapping[str, Any]], insider: Mapping[str, Any]) -> Iterator[str]:
    yield "\nExposed after"
    for row in waiting:
        reports = "not seen" if row["reports"] is None else counted(row["reports"], "report")
        yield f"  {reports:>16}   {spoken(row['hours']):>12}   {row['attack']}"
    ratio = insider["ratio"]
    later = ", ".join(f"{value:g} over {int(n):,} reports" for n, value in ratio.items() if n != "cap")
    yield (
        f"  Until then an insider moves a figure by {insider['insider_moves_at_first']:.2%} of its range, a sensor that lies by "
        f"{insider['liar_moves']:.2%}."
    )
    yield f"  Unexposed, who knows everything does {ratio['cap']:g} times a liar's harm at first, {later}."
