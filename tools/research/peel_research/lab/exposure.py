# SPDX-License-Identifier: MIT
"""Table (b): every attack against every layer, over seeds.

Precision, recall, F1 and the rate of false positives are unweighted: an attack counts as much as any other, whatever it sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan, sqrt
from statistics import fmean, median

from peel_gateway.model.verdict import LAYERS
from peel_research.lab.aim import MIXED, Aim
from peel_research.lab.arena import SHARE, Scale, Trial, play
from peel_research.lab.attacks import LAB_ATTACKS
from peel_research.lab.attacks.record import LabAttack
from peel_research.lab.data import LabData
from peel_research.lab.fleet import profiles_for
from peel_research.lab.shifts import Shifts
from peel_research.lab.spread import Spread

__all__ = ["AttackRow", "AttackTable", "Scores", "attack_table", "planned"]

EPSILON = 1.0


@dataclass(frozen=True)
class AttackRow:
    """One attack on one kind of attribute of one profile, over seeds."""

    attack: LabAttack
    aim: Aim
    poisoned: int
    exposure: Spread | None
    """Share of poisoned pieces that do not count in the end; None where none were sent."""
    layers: Mapping[str, float]
    """Share of poisoned pieces that each layer objected to when they came."""
    attackers: int
    attackers_exposed: int
    delay: float | None
    """Poisoned pieces until a device was exposed, the median."""
    slowest: int | None
    """The most of them."""
    undefended: Spread
    """Shift of the worst figure over a liar's, if whatever opens counted."""
    before: Spread
    """The same before devices were withdrawn."""
    after: Spread
    """The same in the end."""

    @property
    def mixed(self) -> bool:
        """Whether the profile mixes kinds of attributes."""
        return Aim.at(self.aim.profile).mechanism == MIXED


@dataclass(frozen=True)
class Scores:
    """Scores of telling poisoned from honest reports, unweighted over attacks."""

    precision: Spread
    recall: Spread
    f1: Spread
    fpr: Spread


@dataclass(frozen=True)
class AttackTable:
    """All attacks, and the honest devices beside them."""

    rows: Sequence[AttackRow]
    share: float
    epsilon: float
    seeds: Sequence[int]
    devices: int
    reports: int
    """Of each honest device in each trial."""
    honest_reports: int
    honest_refused: int
    honest_devices: int
    honest_exposed: int
    scores: Mapping[str, Scores]
    """Of reports and of devices; for attacks that a layer exposes, and for all of them."""

    @property
    def false_positive_rate(self) -> float:
        """Share of honest reports that were refused or withdrawn."""
        return self.honest_refused / self.honest_reports

    @property
    def false_positive_limit(self) -> float:
        """The upper 95% confidence limit of the true rate: the rule of three, or a normal approximation if some were seen."""
        return (3 + self.honest_refused + 2 * sqrt(self.honest_refused)) / self.honest_reports


Plan = Sequence[tuple[LabAttack, Aim]]
"""Attacks, and the part of a profile that each is committed on."""


def planned(data: LabData, *, quick: bool) -> Plan:
    """Return the attacks to play. In a quick run, attacks on frames are played for the first and the last profile only."""
    profiles = list(profiles_for(data, EPSILON).values())
    few = (profiles[0], profiles[-1])
    return [
        (attack, aim)
        for attack in LAB_ATTACKS.values()
        for profile in (few if quick and attack.turn else profiles)
        for aim in attack.aims(profile)
    ]


def attack_table(data: LabData, plan: Plan, scale: Scale, progress: Callable[[str], None]) -> AttackTable:
    """Play what is planned with all seeds; `progress` is told the name of each attack before it is played."""
    seeds = list(range(1, scale.seeds + 1))
    trials: list[list[Trial]] = []
    for attack, aim in plan:
        progress(attack.name)
        trials.append([play(data, aim, attack, scale, seed) for seed in seeds])
    flat = [trial for each in trials for trial in each]
    return AttackTable(
        rows=[_row(each) for each in trials],
        share=SHARE,
        epsilon=EPSILON,
        seeds=seeds,
        devices=scale.devices,
        reports=scale.reports,
        honest_reports=sum(trial.honest_reports for trial in flat),
        honest_refused=sum(trial.honest_refused for trial in flat),
        honest_devices=sum(trial.honest_devices for trial in flat),
        honest_exposed=sum(trial.honest_exposed for trial in flat),
        scores=dict(_scores(flat, seeds)),
    )


def _row(trials: Sequence[Trial]) -> AttackRow:
    first = trials[0]
    delays = [delay for trial in trials for delay in trial.delays]
    shares = [trial.by_layer() for trial in trials]
    layers = {layer.label: fmean(each.get(layer.label, 0.0) for each in shares) for layer in LAYERS}
    return AttackRow(
        attack=first.attack,
        aim=first.aim,
        poisoned=sum(trial.poisoned for trial in trials),
        exposure=Spread.of([trial.exposure for trial in trials]) if first.poisoned else None,
        layers={name: share for name, share in layers.items() if share},
        attackers=sum(trial.attackers for trial in trials),
        attackers_exposed=sum(trial.attackers_exposed for trial in trials),
        delay=median(delays) if delays else None,
        slowest=max(delays) if delays else None,
        undefended=_over_liar(trials, lambda shifts: shifts.undefended),
        before=_over_liar(trials, lambda shifts: shifts.before),
        after=_over_liar(trials, lambda shifts: shifts.after),
    )


def _over_liar(trials: Sequence[Trial], shift: Callable[[Shifts], float]) -> Spread:
    return Spread.of([shift(trial.shifts) / trial.shifts.liar if trial.shifts.liar else 0.0 for trial in trials])


def _scores(trials: Sequence[Trial], seeds: Sequence[int]) -> Iterator[tuple[str, Scores]]:
    """By seed, unweighted over its trials; then over seeds."""
    for group, chosen in (("exposable", [t for t in trials if t.attack.layer]), ("all", list(trials))):
        for unit, counted in (("reports", _of_reports), ("devices", _of_devices)):
            by_seed = [[_rates(*counted(trial)) for trial in chosen if trial.seed == seed] for seed in seeds]
            columns = [[_mean(rates[place] for rates in each) for each in by_seed] for place in range(4)]
            yield f"{unit}, {group}", Scores(*(Spread.of(column) for column in columns))


def _of_reports(trial: Trial) -> tuple[int, int, int, int]:
    """Poisoned, of them found, honest, of them taken for poisoned."""
    return trial.poisoned, trial.poisoned - trial.counted, trial.honest_reports, trial.honest_refused


def _of_devices(trial: Trial) -> tuple[int, int, int, int]:
    return trial.attackers, trial.attackers_exposed, trial.honest_devices, trial.honest_exposed


def _rates(poisoned: int, found: int, honest: int, wronged: int) -> tuple[float, float, float, float]:
    """Precision, recall, F1 and false positives; nan where there is nothing to divide by."""
    precision = found / (found + wronged) if found + wronged else nan
    recall = found / poisoned if poisoned else nan
    both = 2 * found / (poisoned + found + wronged) if poisoned else nan
    return precision, recall, both, wronged / honest


def _mean(values: Iterator[float]) -> float:
    known = [value for value in values if not isnan(value)]
    return fmean(known) if known else nan
