# SPDX-License-Identifier: MIT
"""The most that anybody can find by looking at reports: the likelihood ratio test of somebody who is told everything else.

Told what every device reads, how the attack goes and with which budgets on average, the most powerful test at a given rate of false
positives is the likelihood ratio (Neyman and Pearson 1933). No defence that is given nothing but the reports finds more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from peel_research.lab.attacks.paper import keep_probability, preserved_budgets
from peel_research.lab.mechanisms import Krr, Laplace
from peel_research.lab.rivals.base import Bools, Floats, Frequencies, Numbers
from peel_research.lab.scenes import Scene

__all__ = ["FALSE_POSITIVES", "LIMITED", "best_flags"]

FALSE_POSITIVES = 0.01
_LOT = 1e-9
_BUDGETS = 400
"""Budgets over which an unknown one is averaged."""


def best_flags(scene: Scene, mechanism: str, attack: str, epsilon: float) -> Bools:
    """Devices that the best test flags, at a threshold that 1% of the honest ones exceed, ties by lot: bool[devices]."""
    evidence = LIMITED[mechanism, attack](scene, epsilon)
    evidence = evidence + _LOT * np.random.default_rng(1).random(len(evidence))
    return np.asarray(evidence > np.quantile(evidence[~scene.poisoned], 1 - FALSE_POSITIVES))


def _laplace_rule(scene: Scene, epsilon: float) -> Floats:
    noise, honest = _noise(scene), Laplace(epsilon, 1)
    return _averaged([_laplace(noise, replace(honest, epsilon=own).scale) for own in _drawn(epsilon)]) - _laplace(
        noise, honest.scale
    )


def _laplace_output(scene: Scene, epsilon: float) -> Floats:
    """The sum of two such noises has density (1 + |x|/b) exp(-|x|/b) / 4b."""
    size = np.abs(_noise(scene)) / Laplace(epsilon, 1).scale
    return np.asarray(np.log((1 + size) / 2).sum(axis=1))


def _krr_rule(scene: Scene, epsilon: float) -> Floats:
    hits, misses, others = _counted(scene)
    return _averaged([_kept(hits, misses, Krr(own, others + 1).own, others) for own in _drawn(epsilon)]) - _kept(
        hits, misses, Krr(epsilon, others + 1).own, others
    )


def _krr_output(scene: Scene, epsilon: float) -> Floats:
    """A report is its own category if it was and is kept, or was not and became it."""
    hits, misses, others = _counted(scene)
    own, keep = Krr(epsilon, others + 1).own, keep_probability(epsilon, others)
    return _kept(hits, misses, own * keep + (1 - own) * (1 - keep) / others, others) - _kept(hits, misses, own, others)


LIMITED: Mapping[tuple[str, str], Callable[[Scene, float], Floats]] = {
    ("Laplace", "rule"): _laplace_rule,
    ("Laplace", "output"): _laplace_output,
    ("kRR", "rule"): _krr_rule,
    ("kRR", "output"): _krr_output,
}
"""The paper's attacks -> log likelihood ratio of each device's reports, float64[devices]."""


def _noise(scene: Scene) -> Floats:
    """Return the noise of each reading, float64[devices, rounds]."""
    assert isinstance(scene.now, Numbers)
    return scene.now.values - scene.held[:, None]


def _counted(scene: Scene) -> tuple[Floats, Floats, int]:
    """Of each device, reports of its own category and of others, float64[devices]; how many others there are."""
    assert isinstance(scene.now, Frequencies)
    devices, rounds, categories = scene.now.supports.shape
    hits = scene.now.supports[np.arange(devices), :, scene.held.astype(np.int64)].sum(axis=1).astype(np.float64)
    return hits, rounds - hits, categories - 1


def _laplace(noise: Floats, scale: float) -> Floats:
    return np.asarray(-(np.abs(noise) / scale).sum(axis=1) - noise.shape[1] * np.log(2 * scale))


def _kept(hits: Floats, misses: Floats, own: float, others: int) -> Floats:
    return np.asarray(hits * np.log(own) + misses * np.log((1 - own) / others))


def _drawn(epsilon: float) -> list[float]:
    return [float(own) for own in preserved_budgets(_BUDGETS, epsilon, np.random.default_rng(1))]


def _averaged(logarithms: list[Floats]) -> Floats:
    """Logarithm of the mean of exponentials, float64[devices]."""
    stacked = np.array(logarithms)
    most = stacked.max(axis=0)
    return np.asarray(most + np.log(np.exp(stacked - most).mean(axis=0)))
