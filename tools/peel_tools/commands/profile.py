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
from peel_core.primitives import MAX_WIDTH
from peel_gateway.exits import Exit
from peel_gateway.planning.outlook import advice
from peel_gateway.planning.task import Subject, Task
from peel_gateway.printing import Group, Stopped, explaining, json_option, print_json
from peel_tools.profiles.dataset import Dataset, DatasetError, attribute_name
from peel_tools.profiles.drafts import Draft, category_table, domain_table, number_table, propose, write_proposal

_PLANNED_DEVICES = 100
"""The number of devices assumed for advice; `peel plan` takes the real one."""


@click.group(cls=Group)
def profile() -> None:
    """Make, check and show profiles."""


@profile.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--name", help="Profile name; the file's name by default.")
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME:LOW:HIGH[:UNIT]",
    help="A numeric attribute; repeat for each.",
)
@click.option("--categories", metavar="NAME:A,B,C", help="One attribute with these categories instead.")
@click.option("--domain", metavar="NAME:COUNT", help="One attribute with COUNT categories without names instead.")
@click.option("--force-krr", is_flag=True, help="Count categories by kRR even where hashing is better.")
@click.option("--epsilon", default="1.0", show_default=True, help="Budget of one report, above 0, at most 16.")
@click.option("--width", type=int, help="Columns of the projection; by default the larger of 48 and k.")
@click.option("--quota", default=60, show_default=True, help="Report numbers in any window of a period.")
@click.option("--period", default=3600, show_default=True, help="Period in seconds.")
@click.option("--lifetime", type=int, help="Report numbers over a device's whole life; by default without limit.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def new(
    path: Path,
    name: str | None,
    attributes: tuple[str, ...],
    categories: str | None,
    domain: str | None,
    force_krr: bool,
    epsilon: str,
    width: int | None,
    quota: int,
    period: int,
    lifetime: int | None,
    force: bool,
) -> None:
    """Write a new profile to PATH, with a seed found by search.

    Numeric attributes are reported by Harmony; categories by kRR or, where that is better, by local hashing.

    \b
    peel profile new climate.toml --attribute temperature:-40:85:°C \\
                                  --attribute humidity:0:100:%
    """
    if path.exists() and not force:
        raise click.UsageError(f"{path} exists; --force overwrites it")
    if sum(map(bool, (attributes, categories, domain))) != 1:
        raise click.UsageError("give --attribute (one or more), --categories or --domain")
    if force_krr and not categories:
        raise click.UsageError("--force-krr goes with --categories: kRR needs their names")
    draft = Draft(
        name=name or path.stem.replace("-", "_").lower(),
        tables=_content(attributes, categories, domain),
        numeric=bool(attributes),
        epsilon=epsilon,
        quota=quota,
        period=period,
        lifetime=lifetime,
        width=width,
        force_krr=force_krr,
    )
    text = _searched(draft)
    made = _parse(text)
    path.write_text(text, encoding="utf-8")
    click.echo(f"{path}: {made.name}, id {made.id:08x}, {made.k} symbols, {made.frame_bytes} bytes per report")
    if made.categorical:
        click.echo(_why(made))
    for sentence in advice(Task(Subject.of(made), _PLANNED_DEVICES, made.interval_s, made.epsilon)):
        click.echo(f"advice: {sentence}", err=True)


@profile.command("propose")
@click.argument("csv", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--name", help="Profile name; the file's name by default.")
@click.option(
    "--dir", "folder", default=".", show_default=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder to write the profiles to.",
)  # fmt: skip
@click.option("--epsilon", default="1.0", show_default=True, help="Budget of one report, above 0, at most 16.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@json_option
def propose_profiles(csv: Path, name: str | None, folder: Path, epsilon: str, force: bool, as_json: bool) -> None:
    """Propose profiles from the columns of a CSV file: one for its numbers, one for its first column of categories.

    The file may be gzip-compressed. Cells are separated by commas, semicolons or tabs; decimal commas are read if the separator is another
    one. Units come from headers such as "temp (°C)". Numbers such as -999 that are far outside a column's other readings count as
    missing. Ranges are a little wider than the readings.

    A profile is public. For a real fleet use the ranges of the sensors, not those of their readings.
    """
    with explaining(DatasetError, ProfileError, LookupError):
        proposal = propose(Dataset.read(csv), attribute_name(name or csv.name.partition(".")[0]), epsilon=epsilon)
        paths = write_proposal(proposal, folder, overwrite=force)
    if as_json:
        print_json(
            {
                "profiles": [str(path) for path in paths],
                "dropped": proposal.dropped,
                "empty_cells": proposal.empty,
                "sentinels": proposal.sentinels,
            }
        )
        return
    for path in paths:
        made = _load(path)
        what = "categories" if made.categorical else "attribute" if made.size == 1 else "attributes"
        click.echo(f"{path}: {made.name}, {made.mechanism}, {made.size} {what}")
    for header, why in proposal.dropped.items():
        click.echo(f"left out: {header}: {why}")
    for header, count in proposal.empty.items():
        click.echo(f"empty cells skipped: {header}: {count}")
    for header, found in proposal.sentinels.items():
        for value, count in found.items():
            click.echo(f"taken as missing: {header}: {value}, {count} times, far outside its other readings")


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
        lines = value if isinstance(value, list) else ["no limit" if value is None else value]
        for place, line in enumerate(lines):
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
        "mechanism": loaded.mechanism,
        "epsilon": loaded.epsilon,
        "rule": loaded.rule,
        "likeliest_face": round(loaded.likeliest, 6),
        "cap": round(loaded.cap, 3),
        "symbols": loaded.k,
        "width": loaded.width,
        "seed": loaded.seed,
        "frame_bytes": loaded.frame_bytes,
        "quota": f"{loaded.quota} in any {loaded.period} s, {loaded.burst} of them at once",
        "interval": f"{loaded.interval_s:g} s when reports come evenly",
        "epsilon_per_window": round(loaded.epsilon * loaded.quota, 3),
        "epsilon_per_day": round(loaded.epsilon * _most_numbers(loaded, 86400), 3),
        "lifetime": loaded.lifetime,
        "epsilon_per_lifetime": None if loaded.lifetime is None else round(loaded.epsilon * loaded.lifetime, 3),
        "attributes": [f"{a.name} [{a.low:g}, {a.high:g}] {a.unit}".strip() for a in loaded.attributes]
        or loaded.subject,
        "categories": list(loaded.categories) or loaded.domain,
    }


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


def _why(made: Profile) -> str:
    """Explain the choice of a categorical profile's mechanism, with the costs of the other one."""
    hashing = choice.hashing_cost(made.epsilon_q20)
    if made.domain > MAX_WIDTH:
        return f"hashing: kRR takes at most {MAX_WIDTH} categories; one forged report counts for {hashing.cap:.1f} honest ones"
    krr = choice.krr_cost(made.epsilon_q20, made.domain)
    mine, other, name = (hashing, krr, "kRR") if made.hash_domain else (krr, hashing, "hashing")
    return (
        f"{made.mechanism}: a rare category's share has variance {mine.variance:.3g} / reports ({name}: {other.variance:.3g}); "
        f"one forged report counts for {mine.cap:.1f} honest ones ({name}: {other.cap:.1f})"
    )


def _content(attributes: tuple[str, ...], categories: str | None, domain: str | None) -> str:
    """Return the [[attribute]] tables."""
    if categories:
        name, rest = _named(categories, "--categories", "NAME:A,B,C")
        return category_table(name, rest.split(","))
    if domain:
        name, rest = _named(domain, "--domain", "NAME:COUNT")
        if not rest.isdecimal():
            raise click.BadParameter(f"{domain!r}: write NAME:COUNT, such as room:5000", param_hint="--domain")
        return domain_table(name, int(rest))
    return "".join(map(_attribute_table, attributes))


def _named(text: str, option: str, form: str) -> tuple[str, str]:
    name, colon, rest = text.partition(":")
    if not colon:
        raise click.BadParameter(f"{text!r}: write {form}", param_hint=option)
    return name, rest


def _attribute_table(text: str) -> str:
    parts = text.split(":", 3)
    if len(parts) < 3:
        raise click.BadParameter(f"{text!r}: write NAME:LOW:HIGH or NAME:LOW:HIGH:UNIT", param_hint="--attribute")
    name, low, high, unit = (*parts, "")[:4]
    return number_table(name, low, high, unit)
