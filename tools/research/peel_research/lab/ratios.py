# SPDX-License-Identifier: MIT
"""Table (a): the share of poisoned devices that each defence estimates (the truth is 5%), and the PEEL paper's figures.

A share says how many devices, not which: a defence that flags the wrong 5% has the right share. So the table also has recall and false
positives, over devices that no training set labelled. Attacks that are not exposed are in the table, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf

import numpy as np

from peel_research.lab.aim import Aim
from peel_research.lab.arena import FULL, QUICK, Scale, Trial, play
from peel_research.lab.attacks import LAB_ATTACKS
from peel_research.lab.attacks.paper import preserved_budgets
from peel_research.lab.data import LabData
from peel_research.lab.fleet import profiles_for
from peel_research.lab.limits import FALSE_POSITIVES, LIMITED, best_flags
from peel_research.lab.mechanisms import Laplace
from peel_research.lab.paper import PaperCode
from peel_research.lab.printed import PRINTED_RATIOS
from peel_research.lab.rivals import RIVALS, Knowledge, Numbers, Rival
from peel_research.lab.rivals.base import Bools, Floats
from peel_research.lab.rivals.ldpguard import LdpGuard
from peel_research.lab.scenes import SCENES, SHARE, Scene, make_scene
from peel_research.lab.spread import Spread

__all__ = ["EPSILON", "RatioRow", "ratios"]

EPSILON = 1.0
_LIMIT, _PAPER, _OURS = "best possible test", "PEEL, as its paper has it", "Peel, all layers"


@dataclass(frozen=True)
class RatioRow:
    """The result of one defence against one attack."""

    mechanism: str
    attack: str
    """The paper's rule or output poisoning, targets (the maximal gain attack), or none: then 0 is the truth, not 5%."""
    acts: str
    """The place of the attack, for defences that look at more than reports."""
    defence: str
    assumes: str
    """The knowledge that it assumes."""
    printed: float | None
    """The paper's figure for the weather data, in percent."""
    ratio: Spread | None
    """Devices that it takes for poisoned, in percent; None where it does not apply, or says nothing about it."""
    recall: Spread | None
    """Share of poisoned devices that it names; None where it names nobody."""
    false_positives: Spread | None
    """Share of honest devices that it names."""
    error: Spread | None
    """Largest error of what it would publish, where the whole range of a figure is 1; None where it publishes nothing of its own."""
    note: str


@dataclass(frozen=True)
class _Outcome:
    """The outcome with one seed."""

    ratio: float | None
    recall: float | None = None
    false_positives: float | None = None
    error: float | None = None


@dataclass(frozen=True)
class _Size:
    devices: int
    rounds: int
    """As many days as the paper's weather data has, in a full run."""
    more: int
    """Seeds for defences without an engine, per seed for ours: they vary more and cost less."""
    scale: Scale


_QUICK = _Size(devices=400, rounds=6, more=1, scale=QUICK)
_FULL = _Size(devices=2000, rounds=30, more=4, scale=FULL)


def ratios(data: LabData, seeds: int, quick: bool) -> list[RatioRow]:
    """All defences under all attacks of the table, over so many seeds."""
    size = _QUICK if quick else _FULL
    tables = (_attacked(data, mechanism, attack, seeds, size) for mechanism, attack in SCENES)
    return list(chain.from_iterable(tables))


def _attacked(data: LabData, mechanism: str, attack: str, seeds: int, size: _Size) -> Iterator[RatioRow]:
    scenes = [
        make_scene(data, mechanism, attack, size.devices, size.rounds, EPSILON, seed)
        for seed in range(1, size.more * seeds + 1)
    ]
    printed = PRINTED_RATIOS.get((mechanism, attack), {})
    for rival in RIVALS:
        figure = printed.get(rival.name.split(",")[0])
        yield _row(
            (mechanism, attack, "report", rival.name, rival.assumes),
            None if figure is None else figure.weather,
            [_judged(rival, scene) for scene in scenes],
            _note(rival, mechanism, attack),
        )
    if (mechanism, attack) in LIMITED:
        yield _limit(mechanism, attack, scenes)
    if "PEEL" in printed:
        yield from _paper(data, mechanism, attack, scenes, printed["PEEL"].weather)
    yield from _ours(data, mechanism, attack, seeds, size.scale)


def _row(
    head: tuple[str, str, str, str, str], printed: float | None, outcomes: Sequence[_Outcome | None], note: str
) -> RatioRow:
    found = [outcome for outcome in outcomes if outcome is not None]
    return RatioRow(
        *head,
        printed=printed,
        ratio=_spread([outcome.ratio for outcome in found], 100),
        recall=_spread([outcome.recall for outcome in found], 1, 0, 1),
        false_positives=_spread([outcome.false_positives for outcome in found], 1, 0, 1),
        error=_spread([outcome.error for outcome in found], 1, 0),
        note=note if found else "does not apply to such reports, or lacks what it assumes",
    )


def _spread(values: Sequence[float | None], unit: float, least: float = -inf, most: float = inf) -> Spread | None:
    known = [unit * value for value in values if value is not None]
    return Spread.of(known, least, most) if known else None


def _named(flags: Bools, poisoned: Bools) -> tuple[float | None, float]:
    """Recall, None where there is nobody to find, and false positives."""
    return (float(flags[poisoned].mean()) if poisoned.any() else None), float(flags[~poisoned].mean())


# ---- rivals ----


def _judged(rival: Rival, scene: Scene) -> _Outcome | None:
    """Told what its paper assumes; the last fifth of the devices is what nobody has labelled."""
    taught = len(scene.poisoned) * 4 // 5
    known = Knowledge(scene.targets, scene.clean, scene.poisoned[:taught], SHARE / (1 - SHARE))
    judged = rival.judge(scene.halves if isinstance(rival, LdpGuard) else scene.now, known)
    if judged is None:
        return None
    recall, wrong = (None, None) if judged.flags is None else _named(judged.flags[taught:], scene.poisoned[taught:])
    return _Outcome(judged.ratio, recall, wrong, _error(judged.estimate, scene))


def _error(estimate: Floats | None, scene: Scene) -> float | None:
    if estimate is None:
        return None
    scale = 2 if isinstance(scene.now, Numbers) else 1  # readings lie in [-1, 1], shares in [0, 1]
    return float(np.abs(estimate - scene.truth).max()) / scale


def _note(rival: Rival, mechanism: str, attack: str) -> str:
    if isinstance(rival, LdpGuard) and (mechanism, attack) == ("kRR", "output"):
        return "neither attack that it supposes is this one; its estimate is unbiased for those only"
    return "" if rival.departs in ("", "none known") else f"here: {rival.departs}"


def _limit(mechanism: str, attack: str, scenes: Sequence[Scene]) -> RatioRow:
    outcomes = []
    for scene in scenes:
        flags = best_flags(scene, mechanism, attack, EPSILON)
        outcomes.append(_Outcome(float(flags.mean()), *_named(flags, scene.poisoned)))
    note = f"no defence that sees reports alone names more at {FALSE_POSITIVES:.0%} of honest devices and {scenes[0].now.rounds} rounds"
    return _row((mechanism, attack, "report", _LIMIT, "every reading, and the attack"), None, outcomes, note)


# ---- the paper's PEEL ----


def _paper(data: LabData, mechanism: str, attack: str, scenes: Sequence[Scene], printed: float) -> Iterator[RatioRow]:
    """By the residual, above that of every honest report of the same Phi."""
    places = {"before the encoder": "the poisoned report is encoded like any other: it is a codeword"}
    if attack == "output":
        places["on y"] = "noise as large as the coordinates, by somebody who does not know Phi or does not care"
    for acts, note in places.items():
        outcomes = [
            _residuals(_sparse(data, mechanism, attack, scene, seed), scene.poisoned, seed, acts == "on y")
            for seed, scene in enumerate(scenes, start=1)
        ]
        yield _row((mechanism, attack, acts, _PAPER, ""), printed, outcomes, note)


def _sparse(data: LabData, mechanism: str, attack: str, scene: Scene, seed: int) -> Floats:
    """One report of each device in the paper's 1-sparse form, float64[devices, k]."""
    if mechanism == "kRR":
        return _first_round(scene)
    rng = np.random.default_rng(seed)
    values = data.values[rng.integers(len(data.values), size=len(scene.poisoned))]
    laplace = Laplace(EPSILON, data.k)
    noisy = laplace.perturb(values, rng)
    bad = scene.poisoned
    if attack == "output":
        noisy[bad] += rng.laplace(scale=laplace.scale, size=noisy[bad].shape)
    else:
        budgets = preserved_budgets(int(bad.sum()), EPSILON, rng)
        noisy[bad] = values[bad] + (noisy[bad] - values[bad]) * (EPSILON / budgets)[:, None]
    drawn = laplace.sparse_free(noisy, rng)
    dense = np.zeros(noisy.shape)
    dense[np.arange(len(dense)), drawn.index] = drawn.value
    return dense


def _first_round(scene: Scene) -> Floats:
    supports: Bools = scene.now.supports  # type: ignore[union-attr] # only asked of frequencies
    return supports[:, 0].astype(np.float64)


def _residuals(s: Floats, poisoned: Bools, seed: int, on_y: bool) -> _Outcome | None:
    if s.shape[1] < 3:
        return None  # no Phi with a row to spare
    code, rng = PaperCode(s.shape[1], seed), np.random.default_rng(seed)
    y = code.encode(s)
    if on_y:
        y[poisoned] = code.rounded(y[poisoned] + y.std() * rng.standard_normal(y[poisoned].shape))
    flags = np.asarray(code.decode(y).residual > code.threshold)
    return _Outcome(float(flags.mean()), *_named(flags, poisoned))


# ---- ours ----

_AGAINST_US: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Laplace", "rule"): ("rule_poisoning_declared", "rule_poisoning_hidden_DPPA"),
    ("Laplace", "output"): (
        "output_poisoning_any_attribute",
        "output_poisoning_own_attribute",
        "output_poisoning_projected",
        "tampering_one_bit",
    ),
    ("kRR", "rule"): ("rule_poisoning_declared", "rule_poisoning_hidden_DPPA"),
    ("kRR", "output"): ("output_poisoning_category", "output_poisoning_projected", "tampering_one_bit"),
    ("kRR", "targets"): ("biased_coin_always",),
}
"""Means are Harmony's here: devices run no Laplace."""


def _ours(data: LabData, mechanism: str, attack: str, seeds: int, scale: Scale) -> Iterator[RatioRow]:
    """Against the gateway's own engine."""
    aim = Aim.at(profiles_for(data, EPSILON)["krr" if mechanism == "kRR" else "harmony"])
    for name in _AGAINST_US.get((mechanism, attack), ()):
        record = LAB_ATTACKS[name]
        outcomes = [_trial(play(data, aim, record, scale, seed)) for seed in range(1, seeds + 1)]
        note = record.why if mechanism == "kRR" else f"means by Harmony; {record.why}"
        yield _row((mechanism, attack, f"{record.place.name.lower()}: {record.help}", _OURS, ""), None, outcomes, note)


def _trial(trial: Trial) -> _Outcome:
    """Devices that are exposed; where an attacker on the line alters reports of honest devices, reports that are refused."""
    refused = trial.honest_exposed / trial.honest_devices
    if not trial.attackers:
        everything = trial.poisoned + trial.honest_reports
        return _Outcome(trial.poisoned * trial.exposure / everything, trial.exposure, refused)
    devices = trial.attackers + trial.honest_devices
    exposed = trial.attackers_exposed + trial.honest_exposed
    return _Outcome(exposed / devices, trial.attackers_exposed / trial.attackers, refused)
