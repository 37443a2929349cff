# SPDX-License-Identifier: MIT
"""Identification in the style of PoisonCatcher (Shuai et al. 2024): random groups, their deviation from a clean past, a classifier.

Its published experiments compute a device's features against the clean data of the same devices, train a classifier on four fifths of the
devices with their labels, and score it by F2 averaged over both classes by their size. Such a score says little where few devices are
poisoned: who flags nobody at 5% has 0.94 (`weighted_f2`). The lab states recall and false positives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peel_tools.lab.rivals.base import Bools, Collected, Floats, Frequencies, Judgement, Knowledge

__all__ = ["PoisonCatcher", "group_features", "weighted_f2"]

_GROUPS = 400
_GROUP_SHARE = 0.2


@dataclass(frozen=True)
class PoisonCatcher:
    """With labels: a linear classifier, at the threshold that is best by F2 on the labelled devices. Without: devices with a feature beyond
    all that the clean past shows of any device."""

    has_labels: bool
    source: str = (
        "Shuai et al.: PoisonCatcher: Revealing and Identifying LDP Poisoning Attacks in IIoT, 2024 (arXiv 2412.15704)"
    )
    departs: str = (
        "identification only, on every attribute (no prior detection of poisoned ones); a linear classifier in place of a random forest; "
        "judged on devices that it was not trained on"
    )

    @property
    def name(self) -> str:
        return "PoisonCatcher, labels known" if self.has_labels else "PoisonCatcher"

    @property
    def assumes(self) -> str:
        labels = "; which of half the devices are poisoned" if self.has_labels else ""
        return f"as many clean rounds of the same devices{labels}"

    def judge(self, collected: Collected, known: Knowledge) -> Judgement | None:
        """Without two clean rounds it does not apply. Labelled devices are flagged as labelled; the ratio is that of the others."""
        if known.clean is None or known.clean.rounds < 2 or (self.has_labels and known.labels is None):
            return None
        rng = np.random.default_rng(1)
        features = group_features(collected, known.clean, rng)
        if not self.has_labels or known.labels is None:
            flags = features.max(axis=1) > _usual(known.clean, rng)
            return Judgement(float(flags.mean()), flags)
        taught = len(known.labels)
        flags = np.concatenate([known.labels, _classified(features, known.labels)[taught:]])
        return Judgement(float(flags[taught:].mean()), flags)


def group_features(now: Collected, clean: Collected, rng: np.random.Generator) -> Floats:
    """Mean deviation of the random groups that a device was in, per round: float64[devices, rounds].

    A group's deviation is the largest difference between what its reports say now and what they said in the clean past.
    """
    difference = _answers(now)[:, : clean.rounds] - _answers(clean)[:, : now.rounds]
    devices = len(difference)
    groups = rng.permuted(np.tile(np.arange(devices) < _GROUP_SHARE * devices, (_GROUPS, 1)), axis=1)
    within = groups / groups.sum(axis=1, keepdims=True)
    deviation = np.abs(np.einsum("gd,drc->grc", within, difference, optimize=True)).max(axis=2)
    return np.asarray(groups.T @ deviation / groups.sum(axis=0)[:, None])


def _answers(collected: Collected) -> Floats:
    """What each report says by itself: float64[devices, rounds, 1 or categories]."""
    if isinstance(collected, Frequencies):
        return np.asarray((collected.supports - collected.q) / (collected.p - collected.q))
    return collected.values[:, :, None]


def _usual(clean: Collected, rng: np.random.Generator) -> float:
    """The largest feature when the second half of a clean past is compared with the first."""
    half = clean.rounds // 2
    return float(group_features(_rounds(clean, slice(half, 2 * half)), _rounds(clean, slice(0, half)), rng).max())


def _rounds(collected: Collected, which: slice) -> Collected:
    if isinstance(collected, Frequencies):
        return Frequencies(collected.supports[:, which], collected.p, collected.q)
    return type(collected)(collected.values[:, which], collected.scale)


def _classified(features: Floats, labels: Bools) -> Bools:
    """Fisher's discriminant, at the threshold with the best F2 on the labelled devices; bool[devices]."""
    taught = features[: len(labels)]
    if labels.all() or not labels.any():
        return np.full(len(features), bool(labels.all()))
    spread = np.cov(taught.T).reshape(features.shape[1], -1) + 1e-12 * np.eye(features.shape[1])
    direction = np.linalg.solve(spread, taught[labels].mean(axis=0) - taught[~labels].mean(axis=0))
    scores = features @ direction
    thresholds = np.unique(scores[: len(labels)])
    best = max(thresholds, key=lambda least: _f2(labels, scores[: len(labels)] >= least))
    return np.asarray(scores >= best)


def _f2(truth: Bools, flags: Bools) -> float:
    """Recall counts four times as much as precision: 5 tp / (5 tp + 4 fn + fp)."""
    hits, misses, alarms = (truth & flags).sum(), (truth & ~flags).sum(), (~truth & flags).sum()
    return float(5 * hits / max(5 * hits + 4 * misses + alarms, 1))


def weighted_f2(truth: Bools, flags: Bools) -> float:
    """F2 of both classes, each weighted by its size: the score of the published experiments."""
    share = truth.mean()
    return float(share * _f2(truth, flags) + (1 - share) * _f2(~truth, ~flags))
