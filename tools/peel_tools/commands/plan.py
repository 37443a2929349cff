# SPDX-License-Identifier: MIT
"""`peel plan`: the accuracy, privacy and costs of a fleet that does not exist yet."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import click

from peel_core import ProfileError, load_profile
from peel_gateway.planning.solve import Given, PlanError, solve
from peel_gateway.planning.task import Subject
from peel_gateway.printing import explaining, json_option, print_json
from peel_tools.planning.report import Battery, text
from peel_tools.planning.report import plan as make_plan
from peel_tools.profiles.drafts import Draft, Row
from peel_tools.profiles.options import attribute_options

_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}


class Duration(click.ParamType[float]):
    """Seconds, or a number with a unit."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(value).strip())
        if found is None or found[2] not in _UNITS:
            self.fail(f"{value!r}: write seconds, or 15m, 6h, 2d", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


class Part(click.ParamType[float]):
    """A part of the range: 5% or 0.05."""

    name = "part"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", str(value).strip())
        if found is None:
            self.fail(f"{value!r}: write a part of the range, such as 5% or 0.05", param, ctx)
        return float(found[1]) / (100 if found[2] else 1)


@click.command()
@click.option(
    "--profile",
    type=click.Path(path_type=Path),
    help="Plan for this profile. Its epsilon and interval are the defaults.",
)
@attribute_options
@click.option("--attributes", "means", type=int, help="Number of means that are reported instead; 1 by default.")
@click.option("--categories", type=int, help="Number of categories that are reported instead.")
@click.option("--devices", type=int, help="Number of devices.")
@click.option("--every", type=Duration(), help="Time between the reports of a device, such as 900, 15m or 6h.")
@click.option("--epsilon", type=float, help="Privacy budget of one report.")
@click.option("--epsilon-per-day", type=float, help="Privacy budget of all reports of a device in a day.")
@click.option(
    "--accuracy", type=Part(), help="Half-width of the 95% interval that you want, as a part of the range, such as 5%."
)
@click.option(
    "--within",
    type=Duration(),
    default="1d",
    show_default=True,
    help="Planned time: accuracy is to be reached in it, and intervals per attribute are those after it.",
)
@click.option("--battery", type=float, help="Battery capacity in mAh, to calculate its life from the next three.")
@click.option("--awake-ma", type=float, default=80.0, show_default=True, help="Current while awake.")
@click.option("--awake-s", type=float, default=4.0, show_default=True, help="Seconds awake per report.")
@click.option("--asleep-ma", type=float, default=0.05, show_default=True, help="Current while asleep.")
@json_option
def plan(
    profile: Path | None,
    attributes: list[Row],
    means: int | None,
    categories: int | None,
    devices: int | None,
    every: float | None,
    epsilon: float | None,
    epsilon_per_day: float | None,
    accuracy: float | None,
    within: float,
    battery: float | None,
    awake_ma: float,
    awake_s: float,
    asleep_ma: float,
    as_json: bool,
) -> None:
    """Calculate the accuracy, privacy and costs of a planned fleet, and print the command that makes its profile.

    Give the values that you know; the others get defaults. With --accuracy, leave one of --devices, --every and --epsilon open, and it
    is calculated.

    \b
    peel plan --devices 200 --attributes 4 --every 15m --epsilon 1
    peel plan --profile room.toml --devices 200
    peel plan --mean co2:400:2000 --category door:open,shut --devices 200
    peel plan --attributes 4 --every 15m --accuracy 5%           how many devices?
    peel plan --devices 200 --epsilon-per-day 24 --accuracy 5%   how often?
    """
    given = Given(
        attributes=means,
        categories=categories,
        devices=devices,
        interval_s=every,
        epsilon=epsilon,
        epsilon_per_day=epsilon_per_day,
        accuracy=accuracy,
        within_s=within,
    )
    with explaining(PlanError, ProfileError):
        loaded = None if profile is None else load_profile(profile)
        if attributes and loaded is not None:
            raise PlanError("a profile and options for attributes exclude each other. Give one of them.")
        if attributes:
            given = replace(given, subject=_subject(attributes, epsilon or 1.0))
        if loaded is not None:
            given = given.of_profile(loaded)
        solved = solve(given)
    power = None if battery is None else Battery(battery, awake_ma, awake_s, asleep_ma)
    found = make_plan(solved, accuracy, power, loaded, within)
    if as_json:
        print_json(found)
    else:
        click.echo(text(found), nl=False)


def _subject(rows: list[Row], epsilon: float) -> Subject:
    """Return the subject of attributes from the command line, checked like those of a profile."""
    draft = Draft(name="planned", attributes=rows, epsilon=f"{epsilon:.7f}")
    return Subject.of(draft.checked())
