# SPDX-License-Identifier: MIT
"""All tables of the lab in one run, as plain figures: what the page, the plots, the docs and ``--json`` are made of."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from peel_research.bench.machine import processor_name
from peel_research.lab.accuracy import accuracy
from peel_research.lab.arena import FULL, QUICK
from peel_research.lab.data import LabData
from peel_research.lab.exposure import AttackRow, AttackTable, attack_table, planned
from peel_research.lab.insider import InsiderRow, insider_table
from peel_research.lab.overheads import overheads
from peel_research.lab.paper import exposures, wire
from peel_research.lab.ratios import ratios
from peel_research.lab.spread import Spread
from peel_research.promise import verified_insiders

__all__ = ["Lab", "Progress"]

Progress = Callable[[str], None]
"""Told what is done next, once for each step."""

_EPSILON = 1.0
_WIRE_SIZES = (8, 16, 64, 252)
_OTHER_TABLES = (
    "what the paper's encoder exposes",
    "ratio estimates",
    "accuracy",
    "overheads",
    "the adaptive insider",
    "insiders against verified coins",
)
_GAMES, _QUICK_GAMES = 1000, 50
"""Insiders that play each strategy against verified coins."""


class Lab:
    """A run that is planned: how many steps it takes, and then its tables."""

    def __init__(self, data: LabData, *, quick: bool) -> None:
        self._data, self._quick = data, quick
        self._plan = planned(data, quick=quick)
        self.steps = len(self._plan) + len(_OTHER_TABLES)

    def tables(self, progress: Progress) -> dict[str, Any]:
        """Run everything; what comes back can be written as JSON."""
        started = time.monotonic()
        data, quick, scale = self._data, self._quick, QUICK if self._quick else FULL
        attacks = attack_table(data, self._plan, scale, progress)
        progress(_OTHER_TABLES[0])
        claims = {
            "wire": [asdict(wire(k, seeds=3 if quick else 20)) for k in _WIRE_SIZES[: 3 if quick else None]],
            "exposures": [asdict(row) for row in exposures(64 if quick else 252, seeds=2 if quick else 5)],
        }
        progress(_OTHER_TABLES[1])
        estimated = ratios(data, scale.seeds, quick)
        progress(_OTHER_TABLES[2])
        errors = list(accuracy(data, quick=quick))
        progress(_OTHER_TABLES[3])
        costs = overheads(quick)
        progress(_OTHER_TABLES[4])
        insiders = insider_table(_EPSILON, data.k, len(data.categories), quick=quick)
        progress(_OTHER_TABLES[5])
        verified = verified_insiders.figures(_QUICK_GAMES if quick else _GAMES)
        figures = {
            **_headline(attacks, insiders),
            "ratio_estimates": [asdict(row) for row in estimated],
            "overheads": [asdict(row) for row in costs],
            "accuracy": [asdict(row) for row in errors],
            "attacks": [_attack(row) for row in attacks.rows],
            "scores": {name: asdict(scores) for name, scores in attacks.scores.items()},
            "insider": [asdict(row) for row in insiders],
            "verified": verified["insiders"],
            "paper": claims,
            "data": data.facts(),
            "run": _run(attacks, quick, time.monotonic() - started),
        }
        return {name: _rounded(value) for name, value in figures.items()}


def _rounded(value: Any) -> Any:
    """Six digits of every number are enough."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def _headline(attacks: AttackTable, insiders: Sequence[InsiderRow]) -> dict[str, Any]:
    """Return the main figures, for programs."""
    worst: dict[str, dict[str, float]] = {}
    for row in insiders:
        of_mechanism = worst.setdefault(row.mechanism, {})
        of_mechanism[str(row.n)] = max(of_mechanism.get(str(row.n), 0.0), row.newcomer)
    return {
        "false_positive_rate": attacks.false_positive_rate,
        "false_positive_limit": attacks.false_positive_limit,
        "honest_reports": attacks.honest_reports,
        "honest_reports_refused": attacks.honest_refused,
        "honest_devices": attacks.honest_devices,
        "honest_devices_exposed": attacks.honest_exposed,
        "exposure": _exposure(attacks.rows),
        "adaptive_shift_over_bound": max(row.newcomer / row.steady for row in insiders if row.steady is not None),
        "adaptive_shift_over_liar": worst,
    }


def _exposure(rows: Sequence[AttackRow]) -> dict[str, float]:
    """Each attack's share of pieces that do not count in the end, with the profile and kind that sees least of it."""
    worst: dict[str, float] = {}
    for row in rows:
        if row.exposure is not None:
            worst[row.attack.name] = min(worst.get(row.attack.name, 1.0), row.exposure.mean)
    return worst


def _attack(row: AttackRow) -> dict[str, Any]:
    attack = row.attack
    return {
        "attack": attack.name,
        "profile": row.aim.profile.name,
        "mixed": row.mixed,
        "kind": row.aim.kind,
        "mechanism": row.aim.mechanism,
        "help": attack.help,
        "place": attack.place.name.lower(),
        "needs": attack.needs.value,
        "layer": attack.layer.label if attack.layer else None,
        "why": attack.why,
        "poisoned": row.poisoned,
        "exposure": _spread(row.exposure),
        "layers": dict(row.layers),
        "attackers": row.attackers,
        "attackers_exposed": row.attackers_exposed,
        "delay": row.delay,
        "slowest": row.slowest,
        "undefended_over_liar": _spread(row.undefended),
        "before_over_liar": _spread(row.before),
        "after_over_liar": _spread(row.after),
    }


def _spread(spread: Spread | None) -> Mapping[str, float] | None:
    return None if spread is None else asdict(spread)


def _run(attacks: AttackTable, quick: bool, seconds: float) -> dict[str, Any]:
    return {
        "quick": quick,
        "share": attacks.share,
        "epsilon": attacks.epsilon,
        "seeds": list(attacks.seeds),
        "devices": attacks.devices,
        "reports_of_each": attacks.reports,
        "seconds": round(seconds, 1),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {processor_name()}",
        "python": platform.python_version(),
    }
