# SPDX-License-Identifier: MIT
"""``peel profile``: make, check and show profiles."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from peel_core import Profile, ProfileError, choice, load_profile, parse_profile, projection
from peel_core.kinds import KINDS, Attribute
from peel_core.odds import variance_cost
from peel_core.primitives import MAX_WIDTH
from peel_core.profile import BATCH_NUMBERS
from peel_gateway.exits import Exit
from peel_gateway.planning.outlook import advice
from peel_gateway.planning.task import Subject, Task
from peel_gateway.printing import Group, Stopped, explaining, json_option, print_json
from peel_tools.planning.report import counted
from peel_tools.profiles.dataset import Dataset, DatasetError, attribute_name
from peel_tools.profiles.drafts import Draft, Row, propose, write_proposal
from peel_tools.profiles.options import ATTRIBUTE_OPTIONS, attribute_options, check_epsilon

_PLANNED_DEVICES = 100
"""The number of devices assumed for advice; `peel plan` takes the real one."""
_EPSILON = "Budget of one report, above 0, at most 6; it becomes odds of two integers up to 255."
_MOST_NAMED = 8
"""The most categories or thresholds that a line lists."""


@click.group(cls=Group)
def profile() -> None:
    """Make, check and show profiles."""


@profile.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--name", help="Profile name; the file's name by default.")
@attribute_options
@click.option("--epsilon", default="1.0", show_default=True, callback=check_epsilon, help=_EPSILON)
@click.option(
    "--width", type=int, help="Columns of the projection; by default the larger of 48 and the number of symbols."
)
@click.option("--quota", default=60, show_default=True, help="Report numbers in any window of a period.")
@click.option("--period", default=3600, show_default=True, help="Period in seconds.")
@click.option("--lifetime", type=int, help="Report numbers over a device's whole life; by default without limit.")
@click.option(
    "--verify/--no-verify",
    default=True,
    show_default=True,
    help="Verify coins: no device can bias them. --no-verify is for devices without a downlink: their coins are judged by statistics.",
)
@click.option(
    "--offline",
    type=int,
    help="With verified coins: seconds that a device can report without a gateway; 3 hours by default.",
)
@click.option(
    "--bucket",
    type=int,
    help="With verified coins: seconds of a time bucket, after which reports count; 300 by default.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def new(
    path: Path,
    name: str | None,
    attributes: list[Row],
    epsilon: str,
    width: int | None,
    quota: int,
    period: int,
    lifetime: int | None,
    verify: bool,
    offline: int | None,
    bucket: int | None,
    force: bool,
) -> None:
    """Write a new profile to PATH, with a seed found by search.

    An attribute ending in @3 is asked three times as often as others. Several attributes may be about one reading.

    \b
    peel profile new room.toml --mean temperature:-10:50:°C \\
                               --above temperature:26,30 \\
                               --ladder co2:400:2000:8:ppm \\
                               --category door:open,shut,ajar \\
                               --hashed error:5000
    """
    if path.exists() and not force:
        raise click.UsageError(f"{path} exists; --force overwrites it")
    if not attributes:
        raise click.UsageError(f"no attribute is given; give at least one of {', '.join(ATTRIBUTE_OPTIONS)}")
    draft = Draft(
        name=name or path.stem.replace("-", "_").lower(),
        attributes=attributes,
        epsilon=epsilon,
        quota=quota,
        period=period,
        lifetime=lifetime,
        verify=verify,
        offline=offline,
        bucket=bucket,
        width=width,
    )
    text = _searched(draft)
    made = _parse(text)
    path.write_text(text, encoding="utf-8")
    click.echo(
        f"{path}: {made.name}, id {made.id:08x}, {counted(len(made.questions), 'question')}, {made.frame_bytes} bytes per report"
    )
    for sentence in _odds_lines(made):
        click.echo(sentence)
    for attribute in made.attributes:
        if not KINDS[attribute.kind].numeric:
            click.echo(_why(attribute, made.epsilon_q20))
    for sentence in advice(Task(Subject.of(made), _PLANNED_DEVICES, made.interval_s, made.epsilon)):
        click.echo(f"advice: {sentence}", err=True)


@profile.command("propose")
@click.argument("csv", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--name", help="Profile name; the file's name by default.")
@click.option(
    "--dir", "folder", default=".", show_default=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder to write the profile to.",
)  # fmt: skip
@click.option("--epsilon", default="1.0", show_default=True, callback=check_epsilon, help=_EPSILON)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def propose_profile(csv: Path, name: str | None, folder: Path, epsilon: str, force: bool, as_json: bool) -> None:
    """Propose a profile from the columns of a CSV file: means of its numbers, and shares of its categories.

    The file may be gzip-compressed. Cells are separated by commas, semicolons or tabs; decimal commas are read if the separator is another
    one. Units come from headers such as "temp (°C)", "temp_C" and "co2_ppm". Words such as NaN count as missing. So do numbers such as
    -999 that are far below a column's other readings, and those such as 9999 that are far above them and repeat.
    Ranges are a little wider than the readings.

    A profile is public. For a real fleet use the ranges of the sensors, not those of their readings.
    """
    with explaining(DatasetError, ProfileError, LookupError):
        proposal = propose(Dataset.read(csv), attribute_name(name or csv.name.partition(".")[0]), epsilon=epsilon)
        path = write_proposal(proposal, folder, overwrite=force)
    if as_json:
        print_json(
            {
                "profile": str(path),
                "dropped": proposal.dropped,
                "empty_cells": proposal.empty,
                "missing_cells": {header: list(map(asdict, found)) for header, found in proposal.missing.items()},
            }
        )
        return
    click.echo(f"{path}: {', '.join(f'{each.name} ({each.kind})' for each in _load(path).attributes)}")
    for header, why in proposal.dropped.items():
        click.echo(f"left out: {header}: {why}")
    for header, count in proposal.empty.items():
        click.echo(f"empty cells skipped: {header}: {count}")
    for header, found in proposal.missing.items():
        for each in found:
            click.echo(f"taken as missing: {header}: {each}")


@profile.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def check(paths: tuple[Path, ...], as_json: bool) -> None:
    """Validate profiles, and check that all codewords of their seeds decode."""
    items = []
    for path in paths:
        loaded = _load(path)
        found = projection.soundness(loaded.seed, loaded.width, loaded.k)
        items.append({"path": str(path), "id": f"{loaded.id:08x}", "sound": found.sound, **asdict(found)})
        if not as_json:
            click.echo(_verdict(path, loaded, found))
    if as_json:
        print_json({"items": items})
    if not all(item["sound"] for item in items):
        raise Stopped("an unsound seed: `peel profile new` finds a sound one", Exit.FOUND)


@profile.command()
@click.argument("path", type=click.Path(path_type=Path))
@json_option
def show(path: Path, as_json: bool) -> None:
    """Show what a profile means: ids, sizes, probabilities."""
    facts = _facts(_load(path))
    if as_json:
        print_json(facts)
        return
    for key, value in facts.items():
        for place, line in enumerate(_fact_lines(value)):
            click.echo(f"{'' if place else key.replace('_', ' '):>22}  {line}")


def _verdict(path: Path, loaded: Profile, found: projection.Soundness) -> str:
    word = "sound" if found.sound else "NOT SOUND"
    return (
        f"{path}: {loaded.name} {loaded.id:08x}: {word}: all {2 * loaded.k} codewords decode: {'yes' if found.decodes else 'no'}; "
        f"condition {found.condition:.0f}; honest residual {found.honest_residual:.1e}; one changed trit {found.tamper_residual:.2f}"
    )


def _facts(loaded: Profile) -> dict[str, Any]:
    return {
        "name": loaded.name,
        "id": f"{loaded.id:08x}",
        "epsilon": loaded.epsilon,
        "symbols": loaded.k,
        "width": loaded.width,
        "seed": loaded.seed,
        "frame_bytes": loaded.frame_bytes,
        "quota": f"{loaded.quota} in any {loaded.period} s, {loaded.burst} of them at once",
        "interval": f"{loaded.interval_s:g} s when reports come evenly",
        "epsilon_per_window": round(loaded.epsilon * loaded.quota, 3),
        "epsilon_per_day": round(loaded.epsilon * _most_numbers(loaded, 86400), 3),
        "lifetime": loaded.lifetime,
        "verify": _verify_facts(loaded),
        "epsilon_per_lifetime": None if loaded.lifetime is None else round(loaded.epsilon * loaded.lifetime, 3),
        "attributes": [_attribute_facts(loaded, place) for place in range(len(loaded.attributes))],
        "readings": _reading_facts(loaded),
    }


def _verify_facts(loaded: Profile) -> str:
    """Return what verified coins mean for a device."""
    if not loaded.verified:
        return "no: coins are judged by statistics"
    return (
        f"{loaded.audits} of {BATCH_NUMBERS} numbers are audited; approved numbers last {loaded.offline} s without a gateway; "
        f"a report counts when its time bucket of {loaded.bucket} s has ended, and a round trip later"
    )


def _attribute_facts(loaded: Profile, place: int) -> dict[str, Any]:
    """Return an attribute with its kind, its questions and the odds of their coins."""
    attribute = loaded.attributes[place]
    mine = [question for question in loaded.questions if question.attribute == place]
    odds = loaded.attribute_odds[place]
    return {
        "name": attribute.name,
        "kind": attribute.kind,
        **KINDS[attribute.kind].table(attribute, loaded.epsilon_q20),
        "weight": attribute.weight,
        "questions": len(mine),
        "share_of_reports": round(sum(question.weight for question in mine) / loaded.slots, 6),
        "odds": str(odds),
        "epsilon": round(odds.epsilon, 6),
        "likeliest_face": round(odds.likeliest, 6),
        "cap": round(odds.cap, 3),
    }


def _reading_facts(loaded: Profile) -> list[dict[str, Any]]:
    """Return the questions about each reading and the epsilon that they add up to, as all of them are about the same value."""
    weights: dict[str, list[int]] = {}
    for question in loaded.questions:
        weights.setdefault(loaded.attributes[question.attribute].name, []).append(question.weight)
    per_day = loaded.epsilon * _most_numbers(loaded, 86400)
    return [
        {
            "name": name,
            "questions": len(mine),
            "epsilon": round(loaded.epsilon * len(mine), 6),
            "epsilon_per_day": round(per_day * sum(mine) / loaded.slots, 3),
        }
        for name, mine in weights.items()
    ]


def _fact_lines(value: Any) -> list[str]:
    """Return a fact as lines of text."""
    if not isinstance(value, list):
        return ["no limit" if value is None else str(value)]
    return [_attribute_line(row) if "kind" in row else _reading_line(row) for row in value]


def _attribute_line(row: dict[str, Any]) -> str:
    unit = f" {row['unit']}" if row.get("unit") else ""
    named = row.get("thresholds") or row.get("categories")
    about = f"[{row['low']:g}, {row['high']:g}]{unit}" if "low" in row else ""
    if named:
        about = ", ".join(f"{each:g}" if isinstance(each, float) else each for each in named[:_MOST_NAMED])
        about += (f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else "") + unit
    about = about or f"{row['domain']:,} categories"
    return (
        f"{row['name']}: {row['kind']}: {about}: {counted(row['questions'], 'question')}, "
        f"{row['share_of_reports']:.0%} of reports, odds {row['odds']}, epsilon {row['epsilon']:.3f} "
        f"(true face {row['likeliest_face']:.1%}, cap {row['cap']:g})"
    )


def _reading_line(row: dict[str, Any]) -> str:
    return (
        f"{row['name']}: {counted(row['questions'], 'question')}, epsilon {row['epsilon']:g} when each was answered once, "
        f"{row['epsilon_per_day']:g} per day on average"
    )


def _most_numbers(loaded: Profile, seconds: int) -> int:
    """Return the most numbers that a device uses in any window of this many seconds (SPEC section 10)."""
    steady = loaded.burst + (loaded.quota + 1 - loaded.burst) * seconds // loaded.period
    return min(steady, loaded.quota * math.ceil(seconds / loaded.period))


def _load(path: Path) -> Profile:
    with explaining(ProfileError):
        return load_profile(path)


def _parse(text: str) -> Profile:
    with explaining(ProfileError):
        return parse_profile(text)


def _searched(draft: Draft) -> str:
    """Return the draft with a seed; a progress bar shows the search."""
    with click.progressbar(length=1000, label="searching a seed", file=sys.stderr) as bar:
        with explaining(ProfileError, LookupError):
            text = replace(draft, progress=lambda _tried: bar.update(1)).text()
        bar.update(1000)
    return text


def _odds_lines(made: Profile) -> list[str]:
    """Return a line per coin: its odds, their epsilon, and their variance compared with that of the epsilon asked for."""
    return [
        f"odds {odds} for {odds.outcomes} outcomes: epsilon {odds.epsilon:.3f}, variance {variance_cost(odds, made.epsilon_q20):+.1%} "
        f"against epsilon {made.epsilon:.4g}"
        for odds in sorted({*made.attribute_odds}, key=lambda odds: odds.outcomes)
    ]


def _why(attribute: Attribute, epsilon_q20: int) -> str:
    """Compare the costs of the two kinds for categories."""
    hashing = choice.hashing_cost(epsilon_q20)
    if attribute.domain > MAX_WIDTH:
        return (
            f"{attribute.name}: hashed, as kind category takes at most {MAX_WIDTH} categories; one forged report counts for "
            f"{hashing.cap:.1f} honest ones"
        )
    krr = choice.krr_cost(epsilon_q20, attribute.domain)
    mine, other, name = (hashing, krr, "category") if attribute.kind == "hashed" else (krr, hashing, "hashed")
    return (
        f"{attribute.name}: {attribute.kind}: a rare category's share has variance {mine.variance:.3g} / reports "
        f"({name}: {other.variance:.3g}); one forged report counts for {mine.cap:.1f} honest ones ({name}: {other.cap:.1f})"
    )
