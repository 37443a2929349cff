# SPDX-License-Identifier: MIT
"""Dishonest coins: biased at any strength, with another budget, in directions of their own, asleep at first, or minding the bets."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from peel_core.kinds import CHOICE, HASHED, SIGN
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.verdict import Layer
from peel_gateway.screening.e_process import FRESH, EProcess, Events
from peel_research.lab.attacks.readings import TALKATIVE, TARGET
from peel_research.lab.attacks.record import Course, LabAttack, Needs, Place, Say
from peel_tools.planning.arena import ALPHA

__all__ = ["COIN_ATTACKS", "biased"]

Ints = npt.NDArray[np.int64]

_BUDGETS = 2.0
_MOST_BUDGET = 5.58
_ASLEEP = 60
"""Honest numbers of a sleeper."""
_PATTERN_TARGETS = 4
"""Categories that an adaptive pattern promotes, or half of them if there are fewer: as many as its published example."""
_SHARED = 6
"""Categories that share what is said without noise. Fewer of them are exposed by the bets on sets."""
_CEILING = 0.2
"""The part of the limit that an adaptive insider lets the capital reach, because the gateway's view of the cohort differs a little."""

_SIGNS = frozenset({SIGN})
_CATEGORICAL = frozenset({CHOICE, HASHED})
_HASHED = frozenset({HASHED})


def biased(strength: float) -> Say:
    """Plus, or the target category, with this probability; the contrary, or any other, otherwise."""

    def say(course: Course) -> Course:
        often = course.chance(strength)
        if not course.aim.signed:
            k, wanted = course.aim.k, course.symbol(TARGET)
            return course.saying(np.where(often, wanted, (wanted + course.rng.integers(1, k, often.shape)) % k), 1)
        return course.saying(course.unit, np.where(often, 1, -1))

    return say


def _own_directions(course: Course) -> Course:
    """Half of the attributes up, half down, each device its own half: over all of them the signs are even."""
    return course.saying(course.unit, np.where((course.devices[:, None] + course.unit) % 2, 1, -1))


def _half_of_the_categories(course: Course) -> Course:
    """Any of the lower half; of symbols, the one that most of them hash to."""
    half, symbols = course.aim.block.domain // 2, np.arange(course.aim.k)
    if course.aim.block.form == CHOICE:
        return course.saying(course.rng.integers(0, half, course.unit.shape), 1)
    votes = sum((course.symbol(category)[:, :, None] == symbols).astype(np.int64) for category in range(half))
    return course.saying(np.argmax(votes, axis=2), 1)


def _asleep_first(course: Course) -> Course:
    awake = np.arange(course.unit.shape[1]) >= _ASLEEP
    turned = biased(1.0)(course)
    return course.saying(np.where(awake, turned.index, course.index), np.where(awake, turned.sign, course.sign))


def _only_plus(course: Course) -> Course:
    return course.sending(course.sign > 0)


def _only_target(course: Course) -> Course:
    return course.sending(course.index == course.symbol(TARGET))


def _one_symbol(course: Course) -> Course:
    return course.saying(0, 1)


def _doubled(course: Course) -> Course:
    return course.tossed(np.full(len(course.devices), _BUDGETS * course.profile.epsilon))


def _doubled_declared(course: Course) -> Course:
    return _doubled(course).declaring(np.full(len(course.devices), _BUDGETS * course.profile.epsilon))


def _without_noise(course: Course) -> Course:
    return course.tossed(np.full(len(course.devices), _MOST_BUDGET))


def _at_the_bound(course: Course) -> Course:
    """As often as an honest coin may at most."""
    return biased(course.aim.block.likeliest)(course)


def _designed(course: Course) -> Course:
    """Categories drawn from a distribution of the attacker's own, the same for all his devices."""
    domain = course.aim.block.domain
    return course.saying(course.rng.choice(domain, course.unit.shape, p=course.rng.dirichlet(np.full(domain, 0.3))), 1)


def _shared(course: Course) -> Course:
    """One of a few categories for each report, evenly, and what it hashes to."""
    return course.saying(
        course.symbol(course.rng.integers(0, min(_SHARED, course.aim.block.domain), course.unit.shape)), 1
    )


def _patterned(course: Course) -> Course:
    """Draw how many categories the report should support, as honest reports do, and say the symbol that comes nearest to that and supports
    most targets: each counts as much as one category too many or too few."""
    domain, symbols = course.aim.block.domain, np.arange(course.aim.k)
    support = [course.symbol(category)[:, :, None] == symbols for category in range(domain)]
    targets = np.sum(support[: min(_PATTERN_TARGETS, domain // 2)], axis=0)
    likely = (course.aim.block.likeliest + (domain - 1) / course.aim.k) / domain
    drawn = course.rng.binomial(domain, likely, course.unit.shape)
    return course.saying(np.argmax(targets - np.abs(np.sum(support, axis=0) - drawn[:, :, None]), axis=2), 1)


def _minding_the_bets(course: Course) -> Course:
    """Plus, or the target, unless that would bring the capital of the bets on oneself near the limit."""
    profile = course.profile
    e_process = EProcess(questions_of(profile).bets(), ALPHA)
    wanted, other = biased(1.0)(course), biased(0.0)(course)
    took = np.array([_walk(e_process, wanted, other, row) for row in range(len(course.devices))])
    return course.saying(np.where(took, wanted.index, other.index), np.where(took, wanted.sign, other.sign))


def _walk(e_process: EProcess, wanted: Course, other: Course, row: int) -> npt.NDArray[np.bool_]:
    took, _ = e_process.walk(
        e_process.new_states(1), _events(wanted, row), _events(other, row), ceiling=_CEILING / ALPHA
    )
    return took


def _events(course: Course, row: int) -> Events:
    column, sign = (each[row] for each in course.answers())
    unit, symbol = questions_of(course.profile).toss(course.profile.cell(course.assigned[row], column), sign)
    zero = np.zeros(len(unit), np.int64)
    cohort = course.leaning[course.profile.question(unit)]
    return Events(
        row=zero, number=np.arange(1, len(unit) + 1), unit=unit, symbol=symbol, cohort=cohort, kind=zero + FRESH
    )


_TOO_OFTEN = "An honest coin shows no face more often than its epsilon allows. A bet on that face grows until it exposes the device."

_coin = partial(LabAttack, place=Place.COIN, needs=Needs.KEYS)
_statistical = partial(_coin, layer=Layer.STATISTICS)

COIN_ATTACKS = (
    _statistical(
        name="biased_coin_always",
        help="Always plus, or always one category.",
        why=_TOO_OFTEN,
        say=biased(1.0),
        effort=2,
    ),
    _statistical(
        name="biased_coin_95_percent",
        help="Plus, or one category, 95% of the time.",
        why=_TOO_OFTEN,
        say=biased(0.95),
        effort=4,
    ),
    _statistical(
        name="biased_coin_88_percent",
        help="Plus 88% of the time.",
        why=_TOO_OFTEN,
        say=biased(0.88),
        effort=8,
        forms=_SIGNS,
    ),
    _statistical(
        name="biased_coin_82_percent",
        help="Plus 82% of the time; an honest coin shows it 73% of the time at most.",
        why=_TOO_OFTEN,
        say=biased(0.82),
        effort=24,
        forms=_SIGNS,
    ),
    _statistical(
        name="biased_coin_own_directions",
        help="A bias in its own direction for each attribute, half of them up.",
        why="The device's own past predicts its next sign more often than any honest one's.",
        say=_own_directions,
        effort=4,
        forms=_SIGNS,
    ),
    _statistical(
        name="biased_coin_sleeper",
        help=f"Honest for {_ASLEEP} numbers, then always plus, or one category.",
        why="Bets get new capital at every toss, so losses against an honest past do not protect the device.",
        say=_asleep_first,
        effort=4,
    ),
    _statistical(
        name="minus_reports_kept_back",
        help="Honest coins, but minus reports are never sent.",
        why="The reports show plus too often, whatever the coins were.",
        say=_only_plus,
        effort=5,
        forms=_SIGNS,
    ),
    _statistical(
        name="half_of_the_categories",
        help="Any category of the lower half, evenly, so none of them too often. With hashing, the symbol that most of them hash to.",
        why="Bets also cover sets of up to half of the categories, and the symbols sent under each hash.",
        say=_half_of_the_categories,
        effort=6,
        forms=_CATEGORICAL,
    ),
    _statistical(
        name="other_reports_kept_back",
        help="Honest coins, but only reports that support one category are sent.",
        why="The reports support it too often, whatever the coins were.",
        say=_only_target,
        effort=8,
        forms=_CATEGORICAL,
    ),
    _statistical(
        name="always_one_symbol",
        help="The same symbol, whatever the hash.",
        why="Bets also cover symbols, whatever the hash.",
        say=_one_symbol,
        effort=3,
        forms=_HASHED,
    ),
    _coin(
        name="another_budget_declared",
        help="Twice the epsilon, and honest about it in the frame.",
        layer=Layer.RULE,
        why="The frame states the odds that its coin was tossed with.",
        say=_doubled_declared,
    ),
    _coin(
        name="another_budget_hidden",
        help="Twice the epsilon behind the right odds.",
        layer=None,
        why="A coin with less noise is a lie about a reading further out, unless readings lie near an end of their range.",
        say=_doubled,
        effort=TALKATIVE,
    ),
    _coin(
        name="hardly_any_noise_hidden",
        help="The largest epsilon behind the right odds: hardly any noise.",
        layer=None,
        why="It reports its reading with less noise. Where readings stay near an end of their range, that is less than any honest coin "
        "has, and is exposed. Elsewhere it is a lie about a reading further out.",
        say=_without_noise,
        effort=TALKATIVE,
    ),
    _statistical(
        name="biased_coin_90_percent",
        help="Plus, or one category, 90% of the time.",
        why=_TOO_OFTEN,
        say=biased(0.9),
        effort=8,
    ),
    _coin(
        name="stealthy_maximal_gain_SMGPA",
        help="The wanted answer just as often as an honest coin may give it (PoisonCatcher: the target, perturbed as the protocol has it).",
        layer=None,
        why="An honest coin does the same for a reading at the end of its range: a lie.",
        say=_at_the_bound,
        effort=TALKATIVE,
    ),
    _statistical(
        name="designed_distribution_AA",
        help="Categories drawn from a distribution of the attacker's own (Sun et al. 2024: the adaptive attack of LDPRecover).",
        why="It names some set of categories more often than an honest device does.",
        say=_designed,
        effort=10,
        forms=frozenset({CHOICE}),
    ),
    _statistical(
        name="designed_distribution_hashed_AA",
        help="One of six categories for each report, evenly, and the symbol it hashes to, without noise (Sun et al. 2024, as above).",
        why="Under hashes where several of them share a symbol, it sends that symbol too often, or never one that none of them has.",
        say=_shared,
        effort=20,
        forms=_HASHED,
    ),
    _statistical(
        name="adaptive_pattern_APA",
        help="A few categories promoted by reports that support as many categories as honest ones do (Li et al. 2025: adaptive pattern).",
        why="The number of categories that a report supports shows nothing. Under each hash, though, it sends one symbol too often.",
        say=_patterned,
        effort=8,
        forms=_HASHED,
    ),
    _coin(
        name="adaptive_insider",
        help="The wanted answer whenever the bets on the device leave room for it.",
        needs=Needs.BETS,
        layer=None,
        why="It looks one report ahead and stays below the limit, which bounds its harm: table (e). With kRR, an answer that it draws at "
        "random to hide sometimes exposes it.",
        say=_minding_the_bets,
        effort=TALKATIVE,
    ),
)
