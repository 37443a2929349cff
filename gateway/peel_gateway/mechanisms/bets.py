# SPDX-License-Identifier: MIT
"""The table of bets on devices (`BETS`), and the parameters that the kernel needs to make them.

A row of the table holds all that the gateway knows of a bet outside the kernel: its id there, its capital by mechanism, its bound, and
the sentences about a device that it exposes. `screening.e_process` explains why bets are fair; the arithmetic is in `gateway/kernels/`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from types import MappingProxyType

from peel_core.odds import Odds

__all__ = [
    "BETS",
    "BETS_BY_NAME",
    "FREQUENCIES",
    "PREDICTIONS",
    "Alphabet",
    "Bet",
    "Bets",
    "Block",
    "Capital",
    "Frequencies",
    "HeavyHitters",
    "Predictions",
    "Sets",
    "bets_on",
    "both_ends",
    "up_to_half",
]

_LATE_SHARE = 1 / 8
"""The part of alpha for late reports. It is small: late reports are few, and a device that selects them is soon exposed."""

_ROUNDING = 2.0**-32
"""floor(w W / 2^32) falls into a run of n out of W slots with probability at most n/W + 2^-32."""

_SLACK = 2.0**-40
"""The shares of the capital are rounded. The kernel's limit allows for far more."""

_MOST_BLOCKS = 32
_MOST_WEIGHTED = 1024
_MOST_WEIGHT = 65_535

_REMEMBERED_UNITS = 2500
"""Up to so many units, what a device says about each is remembered; beyond, it would take too much room, and too long to come back."""

_REMEMBERED_COUNTS = 7500
"""The same for how often it says each symbol about each unit."""


@dataclass(frozen=True, kw_only=True)
class Capital:
    """The capital that a bet begins with, as parts of the capital of all bets on a device."""

    past: float = 0.0
    """Of the bet that learns from the whole past, or that does not learn; of frequencies, that with the longer memory."""
    windows: int = 0
    """The number of restart windows; of frequencies, 1 where there is a bet with a short memory."""
    window: float = 0.0
    """Of the bet of each restart window, or of the one with a short memory."""

    @property
    def total(self) -> float:
        """Return the capital of all of them."""
        return self.past + self.windows * self.window

    def times(self, factor: float) -> Capital:
        """Return the same with this part of the capital."""
        return replace(self, past=self.past * factor, window=self.window * factor)


@dataclass(frozen=True, kw_only=True)
class Bet:
    """One kind of bet."""

    name: str
    """The name in the evidence of an exposure."""
    part: str
    """The part of a device's state that it belongs to: the kernel's `PEEL_E_PROCESS_PART_...`."""
    number: str | None = None
    """Its id within the part, `PEEL_E_PROCESS_...`; None where the part has only one kind of bet."""
    others: bool = False
    """Whether it is about sets of more than half of the items: the evidence then names the other items."""
    capital: Mapping[str, Capital]
    """By mechanism; the mechanisms that do not use the bet are absent. Bets on sets of all sizes share the capital of their part."""
    bound: str
    """The largest probability with which an honest device makes it right. The kernel computes it from `most` and `least`."""
    words: str
    """The end of a sentence about the reports that won it, for logs and alarms."""
    sentence: str
    """A sentence about the device, for the page."""


_P = "p, of one symbol"
_SYMBOLS = "p + (a - 1) q, of a symbols"
_UNITS = "w/W + a 2^-32, of a questions that weigh w of W"

_SYMBOLS_CAPITAL = {
    # Half of it for the whole past, which alone finds what comes too seldom.
    "krr": Capital(past=1 / 2, windows=4, window=1 / 8),
    # A device that does not even look at the hash.
    "hashing": Capital(past=1 / 16, windows=4, window=1 / 64),
}
_UNITS_CAPITAL = {"harmony": Capital(past=1 / 32, windows=2, window=1 / 64)}

# Harmony has seven sixteenths of its capital in restart windows: they alone find a device that turns. Predictions without memory find a
# bias in one direction, or with the cohort, sooner. They need little, like the whole past: the windows of a newcomer hold the same
# evidence. A sixteenth is for frequencies, half of it with a short memory and half with a long one. All other bets over all attributes
# lose where a device gives some attributes up to push the rest; these are made only where an attribute is pushed. Bets on attributes that
# came or did not have little: a device that picks among the attributes of its numbers gains only a smaller share.
#
# Hashing has ten sixteenths in heavy hitters, which expose a device that supports one or a few categories. A sixteenth is for avoided
# categories: it exposes a device that keeps one or a few from being counted. An eighth is for the reports on each hash: it exposes a
# device that supports any set of categories, choosing the best symbol per hash, but a hash must recur first. Which hashes came is not
# bet on: skipped numbers count, so picking among hashes gains nothing in a mean over reports. In one over devices it does
# (THREAT_MODEL.md, *Many categories*).
# fmt: off
BETS: tuple[Bet, ...] = (
    Bet(
        name="plus", part="PREDICTIONS", number="PLUS", bound=_P,
        capital={"harmony": Capital(past=1 / 32)},
        words="were plus",
        sentence="Its coin showed plus in {score} reports",
    ),
    Bet(
        name="minus", part="PREDICTIONS", number="MINUS", bound=_P,
        capital={"harmony": Capital(past=1 / 32)},
        words="were minus",
        sentence="Its coin showed minus in {score} reports",
    ),
    Bet(
        name="agree", part="PREDICTIONS", number="AGREE", bound=_P,
        capital={"harmony": Capital(past=1 / 32)},
        words="agreed with the other devices",
        sentence="It agreed with the other devices in {score} reports",
    ),
    Bet(
        name="disagree", part="PREDICTIONS", number="DISAGREE", bound=_P,
        capital={"harmony": Capital(past=1 / 32)},
        words="contradicted the other devices",
        sentence="It contradicted the other devices in {score} reports",
    ),
    Bet(
        name="own past", part="PREDICTIONS", number="PAST", bound=_P,
        capital={"harmony": Capital(past=1 / 16), "hashing": Capital(past=1 / 40)},
        words="repeated what the device had shown before of the same {unit}",
        sentence="Its signs followed its own past in {score} reports",
    ),
    Bet(  # for a device that reverses its own past at once
        name="against own past", part="PREDICTIONS", number="AGAINST", bound=_P,
        capital={"harmony": Capital(past=1 / 16)},
        words="contradicted what the device had shown before of the same {unit}",
        sentence="Its signs went against its own past in {score} reports",
    ),
    Bet(
        name="own recent past", part="PREDICTIONS", number="RECENT", bound=_P,
        capital={"harmony": Capital(windows=4, window=7 / 64), "hashing": Capital(windows=4, window=1 / 40)},
        words="repeated what the device had lately shown of the same {unit}",
        sentence="Its signs followed its own recent past in {score} reports",
    ),
    Bet(
        name="one unit", part="UNIT", bound=_P,
        capital={"harmony": Capital(past=1 / 8)},
        words="of {index} were the same sign",
        sentence="Of {index} it showed the same sign in {score} reports",
    ),
    Bet(
        name="reports: too many", part="REPORTS", bound=_UNITS,
        capital=_UNITS_CAPITAL,
        words="were about {among}",
        sentence="It spoke of {among} in {score} reports",
    ),
    Bet(
        name="gaps: too many", part="GAPS", bound=_UNITS,
        capital=_UNITS_CAPITAL,
        words="of the missing ones were about {among}",
        sentence="{score} of its missing reports were about {among}",
    ),
    Bet(  # a process of its own
        name="late: too many", part="LATE", bound=_UNITS,
        capital={"harmony": Capital(past=1.0)},
        words="of the late ones were about {among}",
        sentence="{score} of its late reports were about {among}",
    ),
    Bet(
        name="symbols: too many", part="SYMBOLS", bound=_SYMBOLS,
        capital=_SYMBOLS_CAPITAL,
        words="were {among}",
        sentence="It named {among} in {score} reports",
    ),
    Bet(
        name="symbols: too few", part="SYMBOLS", others=True, bound=_SYMBOLS,
        capital=_SYMBOLS_CAPITAL,
        words="were not {among}",
        sentence="It named others than {among} in {score} reports",
    ),
    Bet(
        name="heavy hitters", part="HEAVY_HITTERS", number="SUPPORTED", bound=_SYMBOLS,
        capital={"hashing": Capital(windows=4, window=10 / 64)},
        words="supported {among}",
        sentence="It spoke for {among} in {score} reports",
    ),
    Bet(  # a device that keeps a category from being counted
        name="avoided categories", part="HEAVY_HITTERS", number="UNSUPPORTED", bound="1 - q, of all symbols but one",
        capital={"hashing": Capital(windows=4, window=1 / 64)},
        words="did not support {among}",
        sentence="It spoke against {among} in {score} reports",
    ),
    Bet(  # a device that is biased only where its categories share a symbol
        name="own frequencies: too many", part="FREQUENCIES", number="OFTEN", bound=_P,
        capital={"harmony": Capital(past=1 / 32, windows=1, window=1 / 32), "hashing": Capital(windows=1, window=1 / 32)},
        words="said what the device had said most of the same {unit}",
        sentence="Under the same hash it gave its most frequent answer in {score} reports",
    ),
    Bet(
        name="own frequencies: too few", part="FREQUENCIES", number="SELDOM", bound="1 - q, of all symbols but one",
        capital={"hashing": Capital(windows=1, window=1 / 32)},
        words="were not what the device had said least of the same {unit}",
        sentence="Under the same hash it gave an answer other than its rarest in {score} reports",
    ),
)
# fmt: on

BETS_BY_NAME: Mapping[str, Bet] = MappingProxyType({bet.name: bet for bet in BETS})

PREDICTIONS = tuple(bet for bet in BETS if bet.part == "PREDICTIONS")
"""The pooled predictions, for reports about any unit."""

FREQUENCIES = tuple(bet for bet in BETS if bet.part == "FREQUENCIES")
"""The bets on how often each symbol is said about a unit."""


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Parameters of the bets on the symbol that a report says about its unit."""

    units: int
    symbols: int
    most: float
    """No honest report says a given symbol with a larger probability."""
    capital: Mapping[str, float]
    """By name: of the bet, or of each of its restart windows. Absent bets are not made."""
    unit_capital: float = 0.0
    """Of the bets on single units, all together."""

    @property
    def total(self) -> float:
        """Return the capital of all of these bets."""
        return self.unit_capital + sum(
            each * max(1, *(capital.windows for capital in BETS_BY_NAME[name].capital.values()))
            for name, each in self.capital.items()
        )


@dataclass(frozen=True, kw_only=True)
class Sets:
    """Parameters of the bets that an item is among the a that came most often, for several sizes a."""

    items: int
    few: tuple[int, ...]
    """Sizes up to half of the items, ascending: played by the whole past and by restart windows."""
    many: tuple[int, ...] = ()
    """Sizes above, ascending: that the others come too seldom. Played by the whole past alone: it takes long anyhow."""
    weights: tuple[int, ...] = ()
    """Of each item; empty where all are alike."""
    most: float
    """A set of a items is hit with probability at most most + (a - 1) least, or w most + a least if they weigh w."""
    least: float
    capital: Capital
    """Shared evenly among the sizes."""

    @property
    def total(self) -> float:
        """Return the capital of all of these bets."""
        return self.capital.total


@dataclass(frozen=True, kw_only=True)
class HeavyHitters:
    """Parameters of the bets that a report supports one of a few categories, which the device's last reports point to."""

    categories: int
    symbols: int
    """The number of hash values: g, a prime of at most 127."""
    digits: int
    """m: categories and hashes have so many digits to base g."""
    sizes: tuple[int, ...]
    """A report says one of the symbols that so many heavy hitters hash to; at most 16."""
    votes: tuple[int, ...]
    """A report says the symbol that most of so many heavy hitters hash to; at most 16."""
    most: float
    """One of a symbols comes with probability at most most + (a - 1) least."""
    least: float
    capital: Capital
    """Of each window's list of heavy hitters, shared evenly among sizes and votes."""
    vetoes: tuple[int, ...]
    """A report does not say the symbol that most of so many avoided categories hash to; at most 4. The probability of that is at most
    1 - least."""
    avoided_capital: Capital
    """Of each window's list of avoided categories, shared evenly among the vetoes."""

    @property
    def total(self) -> float:
        """Return the capital of all of these bets."""
        return self.capital.total + self.avoided_capital.total


@dataclass(frozen=True, kw_only=True)
class Frequencies:
    """Parameters of the bets that a report says what its unit's last reports said most, or not what they said least.

    They are made where the last reports did so beyond the bound.
    """

    units: int
    symbols: int
    most: float
    """No honest report says a given symbol with a larger probability."""
    least: float
    """Nor with a smaller one."""
    full: int
    """A count of a symbol that has come so far halves the counts of its unit; at most 255."""
    capital: Mapping[str, float]
    """By name. Absent bets are not made."""

    @property
    def total(self) -> float:
        """Return the capital of all of these bets."""
        return sum(self.capital.values())


@dataclass(frozen=True, kw_only=True)
class Block:
    """A run of units with one coin, and the bets on what reports say about them."""

    first_unit: int = 0
    units: int
    """The number of attributes or hashes that reports are about."""
    first_question: int = 0
    questions: int
    """A number assigns a question. Each unit is one, or all units are one: hashes, and the only unit of categories."""
    symbols: int
    """The number of symbols that a report can say about a unit."""
    predictions: Predictions | None = None
    symbol_sets: Sets | None = None
    """Bets on symbols or categories, for reports about any unit."""
    heavy_hitters: HeavyHitters | None = None
    frequencies: Frequencies | None = None
    lasting_frequencies: Frequencies | None = None
    """The same with a longer memory."""

    def parts(self) -> dict[str, Predictions | Sets | HeavyHitters | Frequencies]:
        """Return the parameters of the parts that are bet on, by name."""
        parts = {
            "predictions": self.predictions,
            "symbol_sets": self.symbol_sets,
            "heavy_hitters": self.heavy_hitters,
            "frequencies": self.frequencies,
            "lasting_frequencies": self.lasting_frequencies,
        }
        return {name: part for name, part in parts.items() if part is not None}


@dataclass(frozen=True, kw_only=True)
class Bets:
    """All bets on the devices of a profile: two processes, whose capital adds up to at most 1 each."""

    blocks: tuple[Block, ...]
    """Units and questions are numbered from 0, block after block."""
    reports: Sets | None = None
    """Bets on the questions of the reports that came."""
    gaps: Sets | None = None
    """Bets on the questions of missing reports."""
    late: Sets | None = None
    """Bets on the questions of late reports, which had been settled as missing. A separate process."""
    late_share: float = 0.0
    """The part of alpha that the process of late reports has."""

    @property
    def units(self) -> int:
        """Return the number of units of all blocks."""
        return sum(block.units for block in self.blocks)

    def assignment(self) -> dict[str, Sets]:
        """Return the parameters of the bets on questions, by name."""
        parts = {"reports": self.reports, "gaps": self.gaps, "late": self.late}
        return {name: part for name, part in parts.items() if part is not None}

    def check(self) -> None:
        """Raise ValueError if a process begins with a capital of more than 1."""
        assignment = self.assignment()
        late = assignment.pop("late").total if self.late is not None else 0.0
        capital = sum(part.total for block in self.blocks for part in block.parts().values())
        capital += sum(part.total for part in assignment.values())
        if max(capital, late) > 1 + _SLACK:
            raise ValueError(f"the bets have {capital} and {late} of a capital of 1")


@dataclass(frozen=True, kw_only=True)
class Alphabet:
    """The units and symbols of a mechanism's reports, and their probabilities."""

    mechanism: str
    units: int
    """The number of attributes, or hashes; 1 where there is nothing to assign."""
    odds: Odds
    """Of the coin: a report says the true symbol with probability keep/K, and each other one with probability change/K."""
    questions: int = 1
    """The number of questions that a number may assign: attributes, or 1."""
    categories: int = 0
    """The categories behind the hashes."""
    digits: int = 0
    """The digits of a hash."""

    @property
    def symbols(self) -> int:
        """Return the number of symbols that a report can say about a unit."""
        return self.odds.outcomes

    @property
    def most(self) -> float:
        """Return p, the probability of the true symbol, never rounded down: a bound below it would cost honest devices."""
        p = Fraction(self.odds.keep, self.odds.total)
        return float(p) if Fraction(float(p)) >= p else math.nextafter(float(p), 1.0)

    @property
    def least(self) -> float:
        """Return q, the probability of any other symbol, to the nearest double: the kernel rounds up each bound that it adds q to."""
        return self.odds.change / self.odds.total


def bets_on(alphabets: Sequence[Alphabet], weights: Sequence[int] = (), *, verified: bool = False) -> Bets:
    """Return the bets of the table that a profile's blocks use, with their parameters.

    Parameters
    ----------
    alphabets : sequence of Alphabet
        One per block: a run of units with one coin.
    weights : sequence of int, optional
        Of each question of all blocks: a number assigns it with probability weight/sum. All alike where they are not given.
    verified : bool
        Whether coins are verified (SPEC section 13). Then there are no bets on coins, and those on questions have all the capital.
    """
    if not 1 <= len(alphabets) <= _MOST_BLOCKS:
        raise ValueError(f"a profile has 1 to {_MOST_BLOCKS} blocks of attributes with one coin, got {len(alphabets)}")
    questions = sum(alphabet.questions for alphabet in alphabets)
    kept = _checked_weights(weights, questions)
    row = _row(_ASSIGNED_BY)
    late = _questions(questions, kept, row["late: too many"])
    share = 1 / sum(row[name].total for name in _ASSIGNMENT) if verified else 1.0
    blocks = [_bare(alphabet) if verified else _block(alphabet, len(alphabets)) for alphabet in alphabets]
    return Bets(
        blocks=_numbered(blocks),
        reports=_questions(questions, kept, row["reports: too many"].times(share)),
        gaps=_questions(questions, kept, row["gaps: too many"].times(share)),
        late=late,
        late_share=0.0 if late is None else _LATE_SHARE,
    )


def _row(mechanism: str) -> dict[str, Capital]:
    """Return the capital of each bet that a mechanism uses, by name."""
    return {bet.name: bet.capital[mechanism] for bet in BETS if mechanism in bet.capital}


def _checked_weights(weights: Sequence[int], questions: int) -> tuple[int, ...]:
    """Return the weights, or none if all are alike."""
    if weights and len(weights) != questions:
        raise ValueError(f"each question has one weight, got {len(weights)} weights for {questions} questions")
    wrong = [weight for weight in weights if not 1 <= weight <= _MOST_WEIGHT]
    if wrong:
        raise ValueError(f"a weight is a whole number from 1 to {_MOST_WEIGHT:,}, got {wrong[0]}")
    if len(set(weights)) <= 1:
        return ()
    if questions > _MOST_WEIGHTED:
        raise ValueError(
            f"at most {_MOST_WEIGHTED:,} questions can have weights, got {questions}. Leave the weights out."
        )
    return tuple(weights)


def _bare(alphabet: Alphabet) -> Block:
    """Return a block without bets on its coin, numbered as if it were the first."""
    return Block(units=alphabet.units, questions=alphabet.questions, symbols=alphabet.symbols)


def _block(alphabet: Alphabet, blocks: int) -> Block:
    """Return the bets on one block of several, which share the capital evenly, numbered as if it were the first."""
    row = _row(alphabet.mechanism)
    capital = {name: each.times(_share(row, blocks)) for name, each in row.items()}
    return Block(
        units=alphabet.units,
        questions=alphabet.questions,
        symbols=alphabet.symbols,
        predictions=_predictions(alphabet, capital),
        symbol_sets=_symbol_sets(alphabet, capital.get("symbols: too many")),
        heavy_hitters=_heavy_hitters(alphabet, capital),
        frequencies=_frequencies(
            alphabet, _SHORT.get(alphabet.mechanism, 0), {name: each.window for name, each in capital.items()}
        ),
        lasting_frequencies=_frequencies(alphabet, _LASTING, {name: each.past for name, each in capital.items()}),
    )


def _share(row: Mapping[str, Capital], blocks: int) -> float:
    """Return the part of its row's capital that each of several blocks has. One alone has its row's."""
    if blocks == 1:
        return 1.0
    assignment = sum(_row(_ASSIGNED_BY)[name].total for name in _ASSIGNMENT)
    of_row = 1 - sum(row[name].total for name in _ASSIGNMENT if name in row)
    return (1 - assignment) / of_row / blocks


_ASSIGNMENT = ("reports: too many", "gaps: too many")
_ASSIGNED_BY = "harmony"
"""The mechanism whose row has the capital of the bets on assigned questions. They are about all blocks of a profile."""


def _numbered(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Number units and questions block after block."""
    units = accumulate((block.units for block in blocks), initial=0)
    questions = accumulate((block.questions for block in blocks), initial=0)
    return tuple(
        replace(block, first_unit=unit, first_question=question)
        for block, unit, question in zip(blocks, units, questions, strict=False)
    )


def _predictions(alphabet: Alphabet, capital: Mapping[str, Capital]) -> Predictions | None:
    each = {bet.name: capital[bet.name].past or capital[bet.name].window for bet in PREDICTIONS if bet.name in capital}
    if not each or alphabet.units > _REMEMBERED_UNITS:
        return None
    return Predictions(
        units=alphabet.units,
        symbols=alphabet.symbols,
        most=alphabet.most,
        capital=each,
        unit_capital=capital["one unit"].past if "one unit" in capital else 0.0,
    )


def _questions(questions: int, weights: tuple[int, ...], capital: Capital) -> Sets | None:
    """Sets of questions. Too few need no bets: what does not come is a gap, and what is no gap comes."""
    if questions == 1:
        return None
    each = 1 / questions + _ROUNDING
    most, least = (1 / sum(weights), _ROUNDING) if weights else (each, each)
    few = up_to_half(questions, 4)
    return Sets(items=questions, few=few, weights=weights, most=most, least=least, capital=capital)


def _symbol_sets(alphabet: Alphabet, capital: Capital | None) -> Sets | None:
    if capital is None:
        return None
    few, many = both_ends(alphabet.symbols)
    return Sets(items=alphabet.symbols, few=few, many=many, most=alphabet.most, least=alphabet.least, capital=capital)


def _heavy_hitters(alphabet: Alphabet, capital: Mapping[str, Capital]) -> HeavyHitters | None:
    if "heavy hitters" not in capital:
        return None
    return HeavyHitters(
        categories=alphabet.categories,
        symbols=alphabet.symbols,
        digits=alphabet.digits,
        sizes=tuple(size for size in (1, 2, 4, 8) if size < alphabet.symbols),
        votes=(4, 8, 16),
        most=alphabet.most,
        least=alphabet.least,
        capital=capital["heavy hitters"],
        vetoes=(1, 4),
        avoided_capital=capital["avoided categories"],
    )


_SHORT = {"harmony": 8, "hashing": 31}
_LASTING = 255
"""Full counts. A few reports tell soon what a device does now, many tell exactly by how much a sign is shown too often."""


def _frequencies(alphabet: Alphabet, full: int, capital: Mapping[str, float]) -> Frequencies | None:
    each = {bet.name: capital[bet.name] for bet in FREQUENCIES if capital.get(bet.name)}
    if not each or alphabet.units * alphabet.symbols > _REMEMBERED_COUNTS:
        return None
    return Frequencies(
        units=alphabet.units,
        symbols=alphabet.symbols,
        most=alphabet.most,
        least=alphabet.least,
        full=full,
        capital=each,
    )


def up_to_half(items: int, step: int) -> tuple[int, ...]:
    """1, step, step^2, ... and half of the items."""
    sizes, size = set(), 1
    while size < items // 2:
        sizes.add(size)
        size *= step
    return (*sorted(sizes), max(1, items // 2))


def both_ends(items: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """1, 2, 4, ... half of the items, and the same counted from the other end."""
    few = up_to_half(items, 2)
    return few, tuple(items - size for size in reversed(few) if items - size > items // 2)
