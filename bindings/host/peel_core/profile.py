# SPDX-License-Identifier: MIT
"""The profile: the parameters shared by a fleet's devices and its gateway (SPEC section 10)."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from peel_core import fields, hash_family, kinds
from peel_core._core import lib
from peel_core.fields import ProfileError
from peel_core.kinds import CHOICE, HASHED, KINDS, SIGN, Attribute, Question
from peel_core.odds import EPSILON_MAX, EPSILON_ONE, Odds, odds_of
from peel_core.primitives import MAX_WIDTH, hash_

__all__ = [
    "DEFAULT_BUCKET",
    "DEFAULT_WIDTH",
    "Block",
    "Profile",
    "Statistic",
    "burst_size",
    "even_interval",
    "load_profile",
    "make_profile",
    "parse_profile",
]

DEFAULT_WIDTH = 48
_MAX_BLOCKS = 32
_KEYS = {"name", "epsilon", "width", "seed", "quota", "period", "lifetime", "verify", "offline", "bucket", "attribute"}

MAX_TABLE, BATCH_NUMBERS = int(lib.PEEL_MAX_TABLE), int(lib.PEEL_BATCH_NUMBERS)
_DEFAULT_OFFLINE = 3 * 3600
_MOST_OFFLINE = 10**8
DEFAULT_BUCKET = 300
_MOST_BUCKET = 86_400
_FEW_AUDITS, _MANY_AUDITS = 8, 16
"""Of a batch: if no coin of the profile has a cap above `_CAP_OF_FEW`, and otherwise (SPEC section 13.3)."""
_CAP_OF_FEW, _MOST_CAP = 3, 10


@dataclass(frozen=True, kw_only=True)
class Block:
    """Consecutive questions with the same form, odds and weight, and the places of what belongs to them.

    ============ ==========================================================================================================
    question     what a number assigns
    column       a column of the projection: one for a sign, one per symbol otherwise
    unit         a question, or for hashed ones a question and its hash
    cell         what is counted: a unit of signs, a symbol of a choice, a symbol under a hash
    statistic    what is estimated: one per sign, one per category
    ============ ==========================================================================================================
    """

    form: int
    weight: int
    questions: int
    symbols: int
    """Columns of each question."""
    domain: int
    """The number of categories: of hashed ones, those behind the symbols; 0 for signs."""
    keep: int
    change: int
    """The odds of its coin (SPEC section 5)."""
    first_question: int
    first_column: int
    first_unit: int
    first_cell: int
    first_statistic: int

    @property
    def columns(self) -> int:
        """The number of its columns."""
        return self.questions * self.symbols

    @property
    def outcomes(self) -> int:
        """The number of outcomes of its coin."""
        return 2 if self.form == SIGN else self.symbols

    @property
    def units(self) -> int:
        """The number of its units."""
        return hash_family.hash_count(self.symbols, self.domain) if self.form == HASHED else self.questions

    @property
    def cells(self) -> int:
        """The number of its cells."""
        return self.units * self.symbols

    @property
    def statistics(self) -> int:
        """The number of its statistics."""
        return self.questions if self.form == SIGN else self.domain

    @property
    def odds(self) -> Odds:
        """Its coin."""
        return Odds(self.keep, self.change, self.outcomes)

    @property
    def rule(self) -> int:
        """The four bytes of a frame that state its odds, as an integer."""
        return self.odds.rule

    @property
    def true_share(self) -> float:
        """The share of answers that are true; all others are uniformly random."""
        return self.odds.true_share

    @property
    def likeliest(self) -> float:
        """The probability of the most probable outcome of an honest coin."""
        return self.odds.likeliest

    @property
    def cap(self) -> float:
        """The distance that one forged report can move an estimate, in honest reports."""
        return self.odds.cap

    @property
    def harm(self) -> float:
        """The harm of a forged report over that of a lie: the cap of SPEC section 13.3. A lie about a choice lowers another share."""
        odds = self.odds
        return (odds.total - odds.change * (self.form == CHOICE)) / (odds.keep - odds.change)


@dataclass(frozen=True)
class Statistic:
    """One estimated figure: a mean, the share of readings above a threshold, or the share of a category."""

    name: str
    attribute: Attribute
    question: int
    low: float
    high: float
    """The least and the greatest possible value."""
    unit: str = ""
    threshold: float | None = None
    category: int | None = None
    """The place of its category."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A validated profile. Make one with :func:`load_profile` or :func:`parse_profile`.

    Properties that depend on the kinds of attributes come from :mod:`peel_core.kinds`.
    """

    name: str
    epsilon_q20: int
    width: int
    seed: int
    quota: int
    period: int
    attributes: tuple[Attribute, ...]
    lifetime: int | None = None
    """The last number that a device may use; None without a limit."""
    offline: int | None = None
    """The seconds for which a device has approved numbers of verified coins; None without verified coins."""
    bucket: int = DEFAULT_BUCKET
    """Seconds of a time bucket: with verified coins, a report is challenged after the bucket in which it was stored."""

    def __hash__(self) -> int:
        return self.id  # not that of all categories, which may be many thousands

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """All questions, in the order of the attributes."""
        return tuple(
            question
            for place, attribute in enumerate(self.attributes)
            for question in KINDS[attribute.kind].questions(attribute, place, self.epsilon_q20)
        )

    @cached_property
    def attribute_odds(self) -> tuple[Odds, ...]:
        """The odds of each attribute: all questions of one attribute have the same."""
        outcomes = {question.attribute: question.outcomes for question in self.questions}
        return tuple(self._odds(outcomes[place]) for place in range(len(self.attributes)))

    def _odds(self, outcomes: int) -> Odds:
        return odds_of(self.epsilon_q20, outcomes, MAX_TABLE if self.verified else None)

    @property
    def verified(self) -> bool:
        """Whether its coins are verified (SPEC section 13)."""
        return self.offline is not None

    @cached_property
    def audits(self) -> int:
        """The numbers of each batch that are audited; 0 without verified coins."""
        if not self.verified:
            return 0
        return _FEW_AUDITS if max(block.harm for block in self.blocks) <= _CAP_OF_FEW else _MANY_AUDITS

    @cached_property
    def reserve(self) -> int:
        """The numbers, used for reports alone, that a device with verified coins keeps approved (SPEC section 13.4)."""
        seconds = max(self.offline or 0, 2 * self.bucket)
        return max(2 * BATCH_NUMBERS, -(-self.quota * seconds // self.period))

    @cached_property
    def opening_bytes(self) -> int:
        """The size of the longest opening of a verified coin; 0 without verified coins."""
        if not self.verified:
            return 0
        return max(int(lib.peel_coin_opening_bytes(block.odds.total, 0)) for block in self.blocks)

    @cached_property
    def number_quota(self) -> int:
        """The numbers that a device uses up in a period: its quota and, with verified coins, the revealed ones."""
        return -(-self.quota * BATCH_NUMBERS // (BATCH_NUMBERS - self.audits))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The questions in blocks: neighbouring signs of equal weight are one block, any other question is one of its own."""
        blocks: list[Block] = []
        for question in self.questions:
            last = blocks[-1] if blocks else None
            if last and question.form == last.form == SIGN and question.weight == last.weight:
                blocks[-1] = replace(last, questions=last.questions + 1)
            else:
                blocks.append(self._block(question, last))
        return tuple(blocks)

    def _block(self, question: Question, before: Block | None) -> Block:
        odds = self._odds(question.outcomes)
        return Block(
            form=question.form,
            weight=question.weight,
            questions=1,
            symbols=question.symbols,
            domain=0 if question.form == SIGN else self.attributes[question.attribute].domain,
            keep=odds.keep,
            change=odds.change,
            first_question=before.first_question + before.questions if before else 0,
            first_column=before.first_column + before.columns if before else 0,
            first_unit=before.first_unit + before.units if before else 0,
            first_cell=before.first_cell + before.cells if before else 0,
            first_statistic=before.first_statistic + before.statistics if before else 0,
        )

    @cached_property
    def statistics(self) -> tuple[Statistic, ...]:
        """All figures that are estimated."""
        return tuple(
            statistic
            for place, question in enumerate(self.questions)
            for statistic in self._statistics_of(place, question)
        )

    def _statistics_of(self, place: int, question: Question) -> Iterator[Statistic]:
        attribute = self.attributes[question.attribute]
        if question.threshold is not None:
            name = f"{attribute.name} > {question.threshold:.12g}"
            yield Statistic(name, attribute, place, 0.0, 1.0, threshold=question.threshold)
        elif question.form == SIGN:
            yield Statistic(attribute.name, attribute, place, attribute.low, attribute.high, attribute.unit)
        else:
            front = "" if len(self.attributes) == 1 else f"{attribute.name}: "
            for category in range(attribute.domain):
                name = attribute.categories[category] if attribute.categories else str(category)
                yield Statistic(front + name, attribute, place, 0.0, 1.0, category=category)

    @cached_property
    def size(self) -> int:
        """The number of statistics."""
        return self._ends("statistics")

    @cached_property
    def k(self) -> int:
        """The number of columns that honest codewords have."""
        return self._ends("columns")

    @cached_property
    def units(self) -> int:
        """The number of units; see :class:`Block`."""
        return self._ends("units")

    @cached_property
    def cells(self) -> int:
        """The number of cells that reports are counted in; see :meth:`cell`."""
        return self._ends("cells")

    def _ends(self, what: str) -> int:
        return sum(getattr(block, what) for block in self.blocks)

    @cached_property
    def slots(self) -> int:
        """The number of equally probable slots that numbers assign: each question has as many as its weight."""
        return sum(block.questions * block.weight for block in self.blocks)

    def label(self, index: int) -> str:
        """Return the name of a statistic. In a profile of one attribute a category needs no attribute's name before it."""
        return self.statistics[index].name

    @cached_property
    def _places(self) -> _Places:
        return _Places(self.blocks)

    def block_of_unit(self, unit: Any) -> Any:
        """Return the block of each unit, an integer or an array."""
        return _find(self._places.first_unit, unit)

    def block_of_cell(self, cell: Any) -> Any:
        """Return the block of each cell, an integer or an array."""
        return _find(self._places.first_cell, cell)

    def cell(self, unit: Any, column: Any) -> Any:
        """Return the cell in which a report is counted, from its unit and the column of its codeword (integers or arrays)."""
        places, block = self._places, self.block_of_unit(unit)
        local = unit - places.first_unit[block]
        answer = column - places.first_column[block]
        return places.first_cell[block] + local * places.unit_cells[block] + answer * places.column_cells[block]

    def first_cell(self, unit: Any) -> Any:
        """Return the first cell of each unit."""
        places, block = self._places, self.block_of_unit(unit)
        return places.first_cell[block] + (unit - places.first_unit[block]) * places.unit_cells[block]

    def unit(self, cell: Any) -> Any:
        """Return the unit of each cell."""
        places, block = self._places, self.block_of_cell(cell)
        return places.first_unit[block] + (cell - places.first_cell[block]) // places.unit_width[block]

    def question(self, unit: Any) -> Any:
        """Return the question of each unit."""
        places, block = self._places, self.block_of_unit(unit)
        return places.first_question[block] + (unit - places.first_unit[block]) * places.unit_questions[block]

    def rules(self, unit: Any) -> Any:
        """Return the rule of each unit: the odds that its frames must state."""
        return self._places.rule[self.block_of_unit(unit)]

    @property
    def epsilon(self) -> float:
        """The privacy budget of one report."""
        return self.epsilon_q20 / EPSILON_ONE

    @property
    def frame_bytes(self) -> int:
        """The size of a sealed frame."""
        return int(lib.peel_frame_bytes(self.width, 0))

    @property
    def burst(self) -> int:
        """The most numbers that a device can take at once (SPEC section 10)."""
        return burst_size(self.quota)

    @property
    def interval_s(self) -> float:
        """Seconds between the reports of a device that uses its quota evenly, in whole milliseconds as devices count."""
        return even_interval(self.quota, self.period)

    def table(self) -> dict[str, Any]:
        """Return the profile as a device's bundle contains it."""
        return {
            "name": self.name,
            "id": f"{self.id:08x}",
            "epsilon_q20": self.epsilon_q20,
            "width": self.width,
            "seed": self.seed,
            "quota": self.quota,
            "period": self.period,
            **({} if self.lifetime is None else {"lifetime": self.lifetime}),
            **({"audits": self.audits, "offline": self.offline, "bucket": self.bucket} if self.verified else {}),
            "attributes": [
                self._attribute_table(attribute, odds)
                for attribute, odds in zip(self.attributes, self.attribute_odds, strict=True)
            ],
        }

    def _attribute_table(self, attribute: Attribute, odds: Odds) -> dict[str, Any]:
        own = KINDS[attribute.kind].table(attribute, self.epsilon_q20)
        shared = {"name": attribute.name, "kind": attribute.kind, "weight": attribute.weight}
        return {**shared, "keep": odds.keep, "change": odds.change, **own}

    def canonical(self) -> str:
        """Return the canonical form. ``id`` is its digest."""
        lines = [
            "peel-profile-3",
            f"name={self.name}",
            f"epsilon={self.epsilon_q20}",
            f"width={self.width}",
            f"seed={self.seed}",
            f"quota={self.quota}",
            f"period={self.period}",
            *([] if self.lifetime is None else [f"lifetime={self.lifetime}"]),
            *([f"verify={self.offline}|{self.bucket}"] if self.verified else []),
            *(
                line
                for each, odds in zip(self.attributes, self.attribute_odds, strict=True)
                for line in KINDS[each.kind].canonical(each, odds)
            ),
        ]
        return "".join(line + "\n" for line in lines)

    @cached_property
    def id(self) -> int:
        """The 32-bit profile id."""
        return int.from_bytes(hash_("peel/1 profile", self.canonical().encode(), 4), "little")


def burst_size(quota: int) -> int:
    """Return the most numbers that a device with this quota takes at once: an eighth of it (SPEC section 10)."""
    return max(1, quota // 8)


def even_interval(quota: int, period: int) -> float:
    """Return the seconds between reports that use a quota evenly. A shorter interval cannot be kept for long."""
    return math.ceil((1000 * period + 1) / (quota + 1 - burst_size(quota))) / 1000


def load_profile(path: Path | str) -> Profile:
    """Read a TOML profile. Errors name the file and the key."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(str(path), f"cannot be read: {error}") from error
    try:
        return parse_profile(text)
    except ProfileError as error:
        raise ProfileError(f"{path}: {error.key}", str(error).removeprefix(f"{error.key}: ")) from error


def parse_profile(text: str) -> Profile:
    """Parse a profile from TOML text. ``width`` defaults to the larger of 48 and k."""
    try:
        table = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError("profile", f"is not TOML: {error}") from error
    return make_profile(table)


def make_profile(table: Mapping[str, Any]) -> Profile:
    """Make a profile from a table with the keys of the TOML file."""
    fields.refuse_unknown(table, _KEYS)
    rows = table.get("attribute")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ProfileError("attribute", "at least one [[attribute]] table is required")
    epsilon = _epsilon(table)
    profile = Profile(
        name=fields.name(table, "name"),
        epsilon_q20=epsilon,
        width=DEFAULT_WIDTH,
        seed=fields.integer(table, "seed", 0, 2**32 - 1),
        quota=fields.integer(table, "quota", 1, 10**6),
        period=fields.integer(table, "period", 1, 10**8),
        attributes=kinds.read_attributes(rows, epsilon),
        lifetime=fields.integer(table, "lifetime", 1, 2**48 - 1) if "lifetime" in table else None,
        offline=_offline(table),
        bucket=fields.integer(table, "bucket", 1, _MOST_BUCKET, DEFAULT_BUCKET),
    )
    _check_caps(profile)
    return replace(profile, width=_width(profile, table))


def _offline(table: Mapping[str, Any]) -> int | None:
    verify = table.get("verify", True)
    if not isinstance(verify, bool):
        raise ProfileError("verify", f"must be true or false, got {verify!r}")
    for key in ("offline", "bucket"):
        if not verify and key in table:
            raise ProfileError(key, f"is for verified coins. Remove verify = false, or remove {key}.")
    return fields.integer(table, "offline", 1, _MOST_OFFLINE, _DEFAULT_OFFLINE) if verify else None


def _check_caps(profile: Profile) -> None:
    worst = max(profile.blocks, key=lambda block: block.harm)
    if profile.verified and worst.harm > _MOST_CAP:
        raise ProfileError(
            "verify",
            f"one forged report among {worst.outcomes} categories could do {worst.harm:.3g} times the harm of a lie, the limit is "
            f"{_MOST_CAP}. Raise epsilon, use fewer categories, or set verify = false.",
        )


def _width(profile: Profile, table: Mapping[str, Any]) -> int:
    blocks, columns = profile.blocks, profile.k
    if columns > MAX_WIDTH:
        raise ProfileError(
            "attribute",
            f"all attributes together have {columns} symbols, more than {MAX_WIDTH}. Use fewer attributes, rungs or categories.",
        )
    if len(blocks) > _MAX_BLOCKS:
        raise ProfileError(
            "attribute",
            f"{len(blocks)} blocks of questions are more than {_MAX_BLOCKS}; put numeric attributes of equal weight next to each other",
        )
    width = fields.integer(table, "width", 2, MAX_WIDTH, max(DEFAULT_WIDTH, columns))
    if width < columns:
        raise ProfileError(
            "width", f"must be at least the number of symbols, {columns}, got {width}. Raise it, or leave it out."
        )
    return width


def _epsilon(table: Mapping[str, Any]) -> int:
    epsilon = fields.decimal(table, "epsilon")
    most = EPSILON_MAX // EPSILON_ONE
    units = int(epsilon * EPSILON_ONE) if 0 < epsilon <= most else 0  # rounded down: never more than requested
    if units == 0:
        raise ProfileError("epsilon", f"must be above 0 (at least 2^-20) and at most {most}, not {epsilon}")
    return units


class _Places:
    """The first places of blocks, and the steps between places in them, as arrays."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        import numpy as np  # only where reports are counted: numpy takes longer to import than all the rest

        def column(values: Iterable[int]) -> Any:
            return np.fromiter(values, np.int64)

        self.first_question = column(block.first_question for block in blocks)
        self.first_column = column(block.first_column for block in blocks)
        self.first_unit = column(block.first_unit for block in blocks)
        self.first_cell = column(block.first_cell for block in blocks)
        self.rule = column(block.rule for block in blocks)
        self.unit_width = column(block.symbols for block in blocks)
        """Cells per unit."""
        self.unit_cells = column({SIGN: 1, CHOICE: 0, HASHED: block.symbols}[block.form] for block in blocks)
        """Cells from one unit to the next."""
        self.column_cells = column(int(block.form != SIGN) for block in blocks)
        """Cells from one column to the next."""
        self.unit_questions = column(int(block.form == SIGN) for block in blocks)
        """Questions from one unit to the next."""


def _find(firsts: Any, places: Any) -> Any:
    """Return the block of each place, given the first place of each block."""
    return firsts.searchsorted(places, side="right") - 1 if len(firsts) > 1 else 0
