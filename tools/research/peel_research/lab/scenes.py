# SPDX-License-Identifier: MIT
"""A fleet without PEEL, 5% of it poisoned: what its collector holds, and what is true.

Every device reads one row of the data in all rounds: the best case for defences that compare rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from peel_research.lab.attacks.paper import keep_probability, preserved_budgets
from peel_research.lab.data import LabData
from peel_research.lab.mechanisms import Krr, Laplace, Oue
from peel_research.lab.rivals import Collected, Frequencies, Numbers
from peel_research.lab.rivals.base import Bools, Floats, Ints

__all__ = ["SCENES", "SHARE", "Scene", "make_scene"]

SHARE = 0.05
"""Of devices that are poisoned: the paper's."""
_TARGETS = 3
"""Categories that a targeted attack promotes."""


@dataclass(frozen=True)
class Scene:
    """One attack by 5% of the devices."""

    now: Collected
    clean: Collected
    """As many rounds before the attack."""
    halves: Collected
    """Two rounds under attack with half the budget each, for who collects that way."""
    poisoned: Bools
    """bool[devices]."""
    targets: Ints | None
    """Categories that are promoted."""
    held: Floats
    """The reading of each device: a number in [-1, 1] or a category, float64[devices]."""
    truth: Floats
    """The mean, or the shares of categories, of what all devices hold."""


Poison = Callable[["_Fleet", Bools, int, float], Collected]


@dataclass(frozen=True)
class _Fleet:
    """The values of devices, and the mechanism's honest reports of them."""

    readings: Floats
    """float64[devices], in [-1, 1]."""
    categories: Ints
    """int64[devices], below `size`."""
    size: int
    targets: Ints
    rng: np.random.Generator

    @property
    def mean(self) -> Floats:
        return np.array([self.readings.mean()])

    @property
    def shares(self) -> Floats:
        return np.bincount(self.categories, minlength=self.size) / len(self.categories)

    # ---- honest reports ----

    def laplace(self, rounds: int, epsilon: float) -> Numbers:
        mechanism = Laplace(epsilon, 1)
        values = mechanism.perturb(np.repeat(self.readings, rounds)[:, None], self.rng)
        return Numbers(values.reshape(-1, rounds), mechanism.scale)

    def krr(self, rounds: int, epsilon: float) -> Frequencies:
        mechanism = Krr(epsilon, self.size)
        said = mechanism.perturb(np.repeat(self.categories, rounds), self.rng).reshape(-1, rounds)
        return Frequencies(said[:, :, None] == np.arange(self.size), mechanism.own, mechanism.other)

    def oue(self, rounds: int, epsilon: float) -> Frequencies:
        mechanism = Oue(epsilon, self.size)
        bits = mechanism.perturb(np.repeat(self.categories, rounds), self.rng)
        return Frequencies(bits.reshape(-1, rounds, self.size), mechanism.own, mechanism.other)

    def some(self, devices: Bools) -> _Fleet:
        return replace(self, readings=self.readings[devices], categories=self.categories[devices])

    def alone(self) -> list[_Fleet]:
        """Each device by itself, for budgets of their own."""
        return [self.some(np.arange(len(self.readings)) == place) for place in range(len(self.readings))]


def _laplace_rule(fleet: _Fleet, poisoned: Bools, rounds: int, epsilon: float) -> Numbers:
    honest, bad = fleet.laplace(rounds, epsilon), fleet.some(poisoned)
    budgets = preserved_budgets(int(poisoned.sum()), epsilon, fleet.rng)
    values = honest.values.copy()
    values[poisoned] = [
        device.laplace(rounds, float(own)).values[0] for device, own in zip(bad.alone(), budgets, strict=True)
    ]
    return Numbers(values, honest.scale)


def _laplace_output(fleet: _Fleet, poisoned: Bools, rounds: int, epsilon: float) -> Numbers:
    """The kernel exp(-eps |v - z| / 2) over all numbers is Laplace noise once more."""
    honest = fleet.laplace(rounds, epsilon)
    values = honest.values.copy()
    values[poisoned] += fleet.rng.laplace(scale=honest.scale, size=values[poisoned].shape)
    return Numbers(values, honest.scale)


def _krr_rule(fleet: _Fleet, poisoned: Bools, rounds: int, epsilon: float) -> Frequencies:
    honest, bad = fleet.krr(rounds, epsilon), fleet.some(poisoned)
    budgets = preserved_budgets(int(poisoned.sum()), epsilon, fleet.rng)
    supports = honest.supports.copy()
    supports[poisoned] = [
        device.krr(rounds, float(own)).supports[0] for device, own in zip(bad.alone(), budgets, strict=True)
    ]
    return Frequencies(supports, honest.p, honest.q)


def _krr_output(fleet: _Fleet, poisoned: Bools, rounds: int, epsilon: float) -> Frequencies:
    """All other categories are at one distance: kept, or any other evenly."""
    honest = fleet.krr(rounds, epsilon)
    said = honest.supports.argmax(axis=2)
    kept = fleet.rng.random(said.shape) < keep_probability(epsilon, fleet.size - 1)
    other = (said + fleet.rng.integers(1, fleet.size, said.shape)) % fleet.size
    said = np.where(kept | ~poisoned[:, None], said, other)
    return Frequencies(said[:, :, None] == np.arange(fleet.size), honest.p, honest.q)


def _krr_targets(fleet: _Fleet, poisoned: Bools, rounds: int, epsilon: float) -> Frequencies:
    honest = fleet.krr(rounds, epsilon)
    supports = honest.supports.copy()
    chosen = fleet.rng.choice(fleet.targets, (int(poisoned.sum()), rounds))
    supports[poisoned] = chosen[:, :, None] == np.arange(fleet.size)
    return Frequencies(supports, honest.p, honest.q)


def _oue_targets(fleet: _Fleet, poisoned: Bools, rounds: int, epsilon: float) -> Frequencies:
    """All targets, and others until there are as many bits as in an honest report on average."""
    honest = fleet.oue(rounds, epsilon)
    supports = honest.supports.copy()
    shape = supports[poisoned].shape
    padding = max(round(honest.p + (fleet.size - 1) * honest.q) - len(fleet.targets), 0)
    order = fleet.rng.random(shape)
    order[:, :, fleet.targets] = -1  # before all others
    places = np.argsort(order, axis=2)[:, :, : len(fleet.targets) + padding]
    crafted = np.zeros(shape, np.bool_)
    np.put_along_axis(crafted, places, True, axis=2)
    supports[poisoned] = crafted
    return Frequencies(supports, honest.p, honest.q)


_HONEST: Mapping[str, Callable[[_Fleet, int, float], Collected]] = {
    "Laplace": _Fleet.laplace,
    "kRR": _Fleet.krr,
    "OUE": _Fleet.oue,
}


def _left_alone(mechanism: str, fleet: _Fleet, poisoned: Bools, rounds: int, epsilon: float) -> Collected:
    return _HONEST[mechanism](fleet, rounds, epsilon)


_POISON: Mapping[tuple[str, str], Poison] = {
    ("Laplace", "rule"): _laplace_rule,
    ("Laplace", "output"): _laplace_output,
    ("kRR", "rule"): _krr_rule,
    ("kRR", "output"): _krr_output,
    ("kRR", "targets"): _krr_targets,
    ("OUE", "targets"): _oue_targets,
    **{(name, "none"): partial(_left_alone, name) for name in _HONEST},
}
SCENES: tuple[tuple[str, str], ...] = tuple(_POISON)
"""(mechanism, attack): the paper's four; the maximal gain attack (Cao, Jia, Gong 2021), for which most defences were made; and none, to see
what is found where there is nothing."""


def make_scene(
    data: LabData, mechanism: str, attack: str, devices: int, rounds: int, epsilon: float, seed: int
) -> Scene:
    """Return a scene of devices with random rows of the data, of which a random 5% attack in every round (none without an attack)."""
    rng = np.random.default_rng(seed)
    size = len(data.categories)
    fleet = _Fleet(
        readings=data.values[rng.integers(len(data.values), size=devices), seed % data.k],
        categories=data.category[rng.integers(len(data.category), size=devices)],
        size=size,
        targets=np.argsort(data.shares)[: min(_TARGETS, size - 1)],
        rng=rng,
    )
    poisoned = rng.permutation(devices) < (0 if attack == "none" else round(SHARE * devices))
    poison = _POISON[mechanism, attack]
    return Scene(
        now=poison(fleet, poisoned, rounds, epsilon),
        clean=_HONEST[mechanism](fleet, rounds, epsilon),
        halves=poison(fleet, poisoned, 2, epsilon / 2),
        poisoned=poisoned,
        targets=fleet.targets if attack == "targets" else None,
        held=fleet.readings if mechanism == "Laplace" else fleet.categories.astype(np.float64),
        truth=fleet.mean if mechanism == "Laplace" else fleet.shares,
    )
