# SPDX-License-Identifier: MIT
"""Insiders on a mixed profile: signs, a choice and a hashed choice with unequal weights in one profile.

An insider attacks some blocks of questions and is honest about the others. Adaptive insiders play against the e-process of the whole
profile, one step ahead. Those with a fixed strategy play against a whole engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Block, Profile, encode_many, index_many, make_profile
from peel_core.kinds import CHOICE, SIGN
from peel_core.primitives import NO_READING, codeword
from peel_gateway.mechanisms import questions_of
from peel_gateway.screening.e_process import ABSENT, FRESH, GAP, EProcess, Events
from peel_research.promise.engine import BUCKET, PERIOD, QUOTA, Site
from peel_research.promise.picking import PERIOD as PICKING_PERIOD
from peel_research.promise.picking import Setting
from peel_tools.planning.arena import ALPHA, Arena, Generator, Goal, HarmonyArena, HashingArena, KrrArena
from peel_tools.planning.insider import HONEST_LIFE, STYLES, in_order
from peel_tools.simulation.piece import sealed_frame

__all__ = [
    "LIGHT_SETTING",
    "LIGHT_STRATEGIES",
    "PLAYS",
    "Mixed",
    "exposed_after",
    "harm",
    "hidden_minus",
    "mixed_profile",
    "mixed_setting",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LENGTHS = (1000, 10_000)
LIGHT = 0
"""The question that is asked most rarely, a mean."""
_HALF = 0.5


def mixed_profile() -> Profile:
    """Return the profile: four blocks, whose questions have the weights 1, 2, 16 and 8."""
    attributes = [
        {"kind": "mean", "name": "temperature", "low": -10, "high": 50},
        {"kind": "above", "name": "temperature", "thresholds": [26, 30]},
        {"kind": "ladder", "name": "co2", "low": 400, "high": 2000, "rungs": 4, "weight": 2},
        {"kind": "category", "name": "door", "categories": ["open", "shut", "ajar"], "weight": 16},
        {"kind": "hashed", "name": "error", "domain": 200, "weight": 8},
    ]
    table = {"name": "mixed", "epsilon": 1, "verify": False, "seed": 1, "quota": QUOTA, "period": PERIOD}
    return make_profile({**table, "attribute": attributes})


def mixed_setting() -> dict[str, Any]:
    """Return epsilon and the weights of the profile, for the JSON."""
    profile = mixed_profile()
    weights = {f"{each.name} ({each.kind})": each.weight for each in profile.attributes}
    return {"epsilon": profile.epsilon, "weights": weights, "slots": profile.slots}


@dataclass(frozen=True)
class _Part:
    """A block, with the arena that knows honest and wanted answers to its questions."""

    block: Block
    arena: Arena
    goal: Goal

    def honest(self, rng: Generator, unit: Ints) -> Ints:
        """Answers of an honest device with neutral readings."""
        return self.arena.live(rng, self.arena.lives[0], unit, self.goal)

    def lying(self, rng: Generator, unit: Ints) -> Ints:
        """Answers of an honest coin for the reading that harms most."""
        return self.arena.live(rng, self.arena.lives[1], unit, self.goal)

    def wanted(self, rng: Generator, unit: Ints) -> Ints:
        return self.goal.wanted(rng, unit)

    def other(self, rng: Generator, unit: Ints) -> Ints:
        return self.goal.other(rng, unit)


def _part(profile: Profile, block: Block, rng: Generator) -> _Part:
    arena: Arena
    if block.form == SIGN:
        arena = HarmonyArena(profile.epsilon, block.questions)
    elif block.form == CHOICE:
        arena = KrrArena(profile.epsilon, block.symbols)
    else:
        arena = HashingArena(profile.epsilon, block.domain)
    return _Part(block, arena, arena.goals(rng)[0])


class Mixed:
    """A mixed profile with the e-process on its devices."""

    def __init__(self, profile: Profile, rng: Generator) -> None:
        self.profile = profile
        self.e_process = EProcess(questions_of(profile).bets(), ALPHA)
        self.parts = [_part(profile, block, rng) for block in profile.blocks]

    @cached_property
    def names(self) -> list[str]:
        """A name for each block: its kinds of attributes and its weight."""
        return ["_".join([*self._kinds(part.block), f"weight{part.block.weight}"]) for part in self.parts]

    def _kinds(self, block: Block) -> list[str]:
        questions = self.profile.questions[block.first_question : block.first_question + block.questions]
        return list(dict.fromkeys(self.profile.attributes[each.attribute].kind for each in questions))

    @cached_property
    def shares(self) -> Floats:
        """The share of report numbers that assign each block."""
        return np.array([part.block.questions * part.block.weight for part in self.parts]) / self.profile.slots

    def assign(self, rng: Generator, n: int) -> tuple[Ints, Ints]:
        """Return the block and the unit that n report numbers assign."""
        block = rng.choice(len(self.parts), n, p=self.shares)
        unit = np.zeros(n, np.int64)
        for place, part in enumerate(self.parts):
            mine = block == place
            unit[mine] = part.block.first_unit + part.arena.assign(rng, int(mine.sum()))
        return block, unit

    def answers(self, rng: Generator, block: Ints, unit: Ints, say: Callable[[_Part, Generator, Ints], Ints]) -> Ints:
        """Return the symbols that `say` gives, block by block."""
        symbol = np.zeros(len(unit), np.int64)
        for place, part in enumerate(self.parts):
            mine = block == place
            symbol[mine] = say(part, rng, unit[mine] - part.block.first_unit)
        return symbol

    def turned(self, rng: Generator, honest: int) -> npt.NDArray[np.uint8]:
        """Return the state of a device after so many honest reports."""
        state = self.e_process.new_states(1)
        block, unit = self.assign(rng, honest)
        if self.e_process.update(state, in_order(unit, self.answers(rng, block, unit, _Part.honest), 1))[0] >= 0:
            raise RuntimeError("an honest device was exposed on the mixed profile")
        return state

    @property
    def all_blocks(self) -> list[int]:
        """The places of all blocks."""
        return list(range(len(self.parts)))


# ---- adaptive insiders, against the e-process ----


def harm(setting: Mixed, aimed: Sequence[int], lengths: Sequence[int], rng: Generator) -> dict[str, float]:
    """Return the most harm of an unexposed insider on some blocks, over a liar's, by number of reports about them.

    He is honest about all other blocks. Figures are those of a newcomer, and of a sleeper after 100,000 honest reports.
    """
    gain, loss = (np.array([getattr(part.goal, name) for part in setting.parts]) for name in ("gain", "loss"))
    best = {"cap": float(gain[list(aimed)].max())}
    for prefix, honest in (("", 0), ("sleeper_", HONEST_LIFE)):
        before = setting.turned(rng, honest)
        for ceiling, price in STYLES:
            block, unit = setting.assign(rng, _numbers(max(lengths), setting.shares[list(aimed)].sum()))
            mine = np.isin(block, aimed)
            truth = setting.answers(rng, block, unit, _Part.honest)
            wanted, other = (
                in_order(unit, np.where(mine, setting.answers(rng, block, unit, say), truth), honest + 1)
                for say in (_Part.wanted, _Part.other)
            )
            took, walked = setting.e_process.walk(before.copy(), wanted, other, ceiling=ceiling / ALPHA, price=price)
            moved = np.where(took, gain[block], loss[block])[mine]
            for n, at in _reached(mine, lengths, walked):
                key = f"{prefix}ratio_{n}"
                best[key] = max(best.get(key, 0.0), float(moved[: at + 1].mean()))
    return {name: round(value, 3) for name, value in best.items()}


def _numbers(reports: int, share: float) -> int:
    """Numbers that surely assign so many reports about some blocks."""
    return ceil(1.2 * reports / share) + 200


def _reached(mine: Bools, lengths: Sequence[int], walked: int) -> list[tuple[int, int]]:
    """Return the lengths that the insider came to, each with the place of that report among his."""
    places = np.flatnonzero(mine)
    return [(n, n - 1) for n in lengths if n <= len(places) and places[n - 1] < walked]


def hidden_minus(setting: Mixed, lengths: Sequence[int], rng: Generator) -> dict[str, float]:
    """Return the harm of an insider who hides minus: in turn by a report without a reading and by a gap, while the bets allow it.

    His coin is honest for the reading that harms most. Where plus would cost too much, he hides that. The harm is that of the reports
    about signs that count, over a liar's, by their number.
    """
    signs = [place for place, part in enumerate(setting.parts) if part.block.form == SIGN]
    bias = np.array([part.block.true_share for part in setting.parts])
    best: dict[str, float] = {}
    for style in STYLES:
        block, unit = setting.assign(rng, _numbers(3 * max(lengths), setting.shares[signs].sum()))
        mine = np.isin(block, signs)
        lies, truth = (setting.answers(rng, block, unit, say) for say in (_Part.lying, _Part.honest))
        sent = in_order(unit, np.where(mine, lies, truth), 1)
        hidden = np.where(np.arange(len(unit)) % 2, ABSENT, GAP)
        minus = lies == 0
        wanted = replace(sent, kind=np.where(mine & minus, hidden, FRESH))
        other = replace(sent, kind=np.where(mine & ~minus, hidden, FRESH))
        took, walked = _walk(setting, wanted, other, style)
        counts = mine & (took != minus)
        moved = ((2 * lies - 1) / bias[block])[counts]
        for n, at in _reached(counts, lengths, walked):
            best[f"ratio_{n}"] = max(best.get(f"ratio_{n}", 0.0), float(moved[: at + 1].mean()))
    return {name: round(value, 3) for name, value in best.items()}


def _walk(setting: Mixed, wanted: Events, other: Events, style: tuple[float, float]) -> tuple[Bools, int]:
    """Walk a newcomer; see `EProcess.walk`."""
    state = setting.e_process.new_states(1)
    return setting.e_process.walk(state, wanted, other, ceiling=style[0] / ALPHA, price=style[1])


# ---- an insider who favours a light question in one time bucket ----


@dataclass(frozen=True)
class LightSetting(Setting):
    """The mixed profile, with the light question as the target: one number in 35 assigns it."""

    @property
    def share(self) -> float:
        """The share of report numbers that assign the target."""
        profile = mixed_profile()
        return profile.questions[LIGHT].weight / profile.slots

    def profile(self) -> Profile:
        """The mixed profile with the quota of this setting."""
        return replace(mixed_profile(), quota=self.quota, period=PICKING_PERIOD)


LIGHT_SETTING = LightSetting(k=len(mixed_profile().questions), reports=5)
"""Five reports per bucket, as in two of the settings of `picking`."""
LIGHT_STRATEGIES = ("chosen_first", "rest_later", "rest_never", "richest_window")


# ---- fixed strategies, against the whole engine ----

_BATCH = 20
"""Numbers between two judgements."""
_MOST = 4000
"""The most numbers that are taken."""


@dataclass(frozen=True)
class _Turn:
    """The next numbers of a device, as its strategy knows them."""

    rng: Generator
    setting: Mixed
    block: Ints
    unit: Ints
    """int64[N], among all units."""
    number: Ints


@dataclass(frozen=True)
class _Said:
    """A strategy's reports: what is sent at all, what says no reading, and the symbols of the others."""

    sent: Bools
    absent: Bools
    symbol: Ints


Play = Callable[[_Turn], _Said]


def _always(aimed: Sequence[int] | None) -> Play:
    """The wanted answer to some blocks, honest answers to the others."""

    def play(turn: _Turn) -> _Said:
        mine = np.isin(turn.block, turn.setting.all_blocks if aimed is None else aimed)
        wanted, truth = (
            turn.setting.answers(turn.rng, turn.block, turn.unit, say) for say in (_Part.wanted, _Part.honest)
        )
        none = np.zeros(len(mine), np.bool_)
        return _Said(~none, none, np.where(mine, wanted, truth))

    return play


def _no_reading_and_gaps(turn: _Turn) -> _Said:
    """Hide every minus: even numbers by a gap, odd ones by a report without a reading."""
    signs = np.array([part.block.form == SIGN for part in turn.setting.parts])[turn.block]
    lies = turn.setting.answers(turn.rng, turn.block, turn.unit, _Part.lying)
    minus = signs & (lies == 0)
    return _Said(~(minus & (turn.number % 2 == 0)), minus, lies)


def _favouring_the_light(turn: _Turn) -> _Said:
    """Every report about the light question, and half of those about other blocks."""
    lies = turn.setting.answers(turn.rng, turn.block, turn.unit, _Part.lying)
    kept = (turn.block == 0) | (turn.rng.random(len(lies)) < _HALF)
    return _Said(kept, np.zeros(len(lies), np.bool_), lies)


def _heavy_without_reading(turn: _Turn) -> _Said:
    """No reading for every other block, as a device whose other sensors are broken."""
    lies = turn.setting.answers(turn.rng, turn.block, turn.unit, _Part.lying)
    return _Said(np.ones(len(lies), np.bool_), turn.block != 0, lies)


def _honest(turn: _Turn) -> _Said:
    return _always([])(turn)


PLAYS: dict[str, Play] = {
    "honest": _honest,
    "always_all_questions": _always(None),
    "always_signs_weight1": _always([0]),
    "always_signs_weight2": _always([1]),
    "always_choice_weight16": _always([2]),
    "always_hashed_weight8": _always([3]),
    "minus_hidden_by_no_reading_and_gaps": _no_reading_and_gaps,
    "light_question_favoured_by_gaps": _favouring_the_light,
    "light_question_favoured_by_no_reading": _heavy_without_reading,
}
"""Strategies by name. The blocks are those of `mixed_profile`."""


def exposed_after(name: str, seed: int, most: int = _MOST) -> int | None:
    """Return the number of reports that a device sends until an engine exposes it; None if it does not."""
    profile, play, sent = mixed_profile(), PLAYS[name], 0
    with Site.opened("mixed", profile, 2, seed=seed, bucket_seconds=BUCKET, days=1) as site:
        setting = Mixed(profile, site.rng)
        for first in range(1, most, _BATCH):
            site.now += _BATCH * PERIOD / QUOTA
            number = np.arange(first, first + _BATCH)
            frames = _frames(site, setting, play, number)
            sent += len(frames)
            if frames and site.send(frames):
                return sent
    return None


def _frames(site: Site, setting: Mixed, play: Play, number: Ints) -> list[bytes]:
    """Return the sealed reports of device 1."""
    profile, keys = site.profile, site.keys.of(np.zeros(len(number), np.int64))
    ids = np.full(len(number), site.ids[0])
    unit = index_many(profile, ids, keys, number).astype(np.int64)
    block = np.asarray(profile.block_of_unit(unit))
    said = play(_Turn(site.rng, setting, block, unit, number))
    blank = np.full((len(number), len(profile.questions)), NO_READING, np.int32)
    absent = encode_many(profile, ids, keys, number, blank, entropy=site.rng.bytes(64))
    seal = site.keys.seal[0].tobytes()

    def frame(place: int) -> bytes:
        if said.absent[place]:
            return bytes(absent[place])
        column, sign = _codeword(profile.blocks[block[place]], int(unit[place]), int(said.symbol[place]))
        trits, rule = codeword(profile.seed, profile.width, column, sign), profile.blocks[block[place]].rule
        return sealed_frame(profile, int(site.ids[0]), int(number[place]), seal, trits, rule)

    return [frame(place) for place in np.flatnonzero(said.sent).tolist()]


def _codeword(block: Block, unit: int, symbol: int) -> tuple[int, int]:
    """Return column and sign bit of an answer."""
    if block.form == SIGN:
        return block.first_column + unit - block.first_unit, int(symbol == 0)
    return block.first_column + symbol, 0
