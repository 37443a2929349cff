# SPDX-License-Identifier: MIT
"""Identification in the style of PoisonCatcher (Shuai et al. 2024): random groups, their deviation from a clean past, a classifier.

Its published experiments compute a device's features against the clean data of the same devices: 200 groups of a fifth of them, and of
each group and day the largest difference of a member. They train a classifier on four fifths of the devices with their labels. Its score
is F2, averaged over both classes by their size. Such a score says little if few devices are poisoned: a defence that flags no device at
5% has 0.94 (`weighted_f2`). The lab states recall and false positives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peel_research.lab.rivals.base import Bools, Collected, Floats, Frequencies, Judgement, Knowledge

__all__ = ["PoisonCatcher", "group_features", "weighted_f2"]

_GROUPS = 400
_GROUP_SHARE = 0.2


@dataclass(frozen=True)
class PoisonCatcher:
    """With labels: a linear classifier with the fewest errors on the labelled devices. Without: devices with a feature far beyond the
    others'."""

    has_labels: bool
    strictness: float = 3.0
    """Standard deviations that are far, without labels."""
    source: str = (
        "Shuai et al.: PoisonCatcher: Revealing and Identifying LDP Poisoning Attacks in IIoT, 2024 (arXiv 2412.15704)"
    )
    departs: str = (
        "identification only, on every attribute (no prior detection of poisoned ones), against the same round of the clean past instead "
        "of all of its rounds; two of its paper's nine features (its published program has one of them alone, which finds less), and a "
        "linear classifier in place of a random forest; twice as many groups; poisoned reports may happen to be what an honest coin would "
        "have said, where its published experiments draw until they differ; without labels, a rule of ours"
    )

    @property
    def name(self) -> str:
        return "PoisonCatcher, labels known" if self.has_labels else "PoisonCatcher"

    @property
    def assumes(self) -> str:
        labels = "; which of four fifths of the devices are poisoned" if self.has_labels else ""
        return f"as many clean rounds of the same devices{labels}"

    def judge(self, collected: Collected, known: Knowledge) -> Judgement | None:
        """Without a clean past it does not apply. Labelled devices are flagged as labelled; the ratio is that of the others."""
        if known.clean is None or (self.has_labels and known.labels is None):
            return None
        features = group_features(_answers(collected), _answers(known.clean), np.random.default_rng(1))
        if not self.has_labels or known.labels is None:
            flags = self._outstanding(features)
            return Judgement(float(flags.mean()), flags)
        taught = len(known.labels)
        flags = np.concatenate([known.labels, _classified(features, known.labels)[taught:]])
        return Judgement(float(flags[taught:].mean()), flags)

    def _outstanding(self, features: Floats) -> Bools:
        """Beyond the median by more than so many standard deviations, as the median deviation gives them for a normal distribution."""
        beyond = features - np.median(features, axis=0)
        usual = 1.4826 * np.median(np.abs(beyond), axis=0)
        return np.asarray((beyond > self.strictness * usual).any(axis=1))


def group_features(now: Floats, clean: Floats, rng: np.random.Generator) -> Floats:
    """Return the mean features of the random groups of each device over all rounds, float64[devices, 2].

    A group's features are the distance of its mean answer from the clean past (query bias) and the largest difference of a member
    (fluctuation).
    Answers are float64[devices, rounds].
    """
    rounds = min(now.shape[1], clean.shape[1])
    difference = now[:, :rounds] - clean[:, :rounds]
    devices = len(difference)
    groups = rng.permuted(np.tile(np.arange(devices) < _GROUP_SHARE * devices, (_GROUPS, 1)), axis=1)
    bias = np.abs(groups @ difference / groups.sum(axis=1, keepdims=True))
    fluctuation = np.array([np.abs(difference[group]).max(axis=0) for group in groups])
    shown = np.stack([bias.mean(axis=1), fluctuation.mean(axis=1)], axis=1)
    return np.asarray(groups.T @ shown / groups.sum(axis=0)[:, None])


def _answers(collected: Collected) -> Floats:
    """Return each report as a number, float64[devices, rounds]. The published experiments also treat categories as numbers."""
    if isinstance(collected, Frequencies):
        places = np.arange(collected.supports.shape[2])
        return np.asarray((collected.supports * places).sum(axis=2) / collected.supports.sum(axis=2).clip(1))
    return collected.values


def _classified(features: Floats, labels: Bools) -> Bools:
    """Fisher's discriminant, at the threshold with the fewest errors on the labelled devices, which may be that nobody is flagged."""
    taught = features[: len(labels)]
    if labels.all() or not labels.any():
        return np.full(len(features), bool(labels.all()))
    spread = np.cov(taught.T) + 1e-12 * np.eye(features.shape[1])
    scores = features @ np.linalg.solve(spread, taught[labels].mean(axis=0) - taught[~labels].mean(axis=0))
    order = np.argsort(-scores[: len(labels)])
    errors = labels.sum() - np.cumsum(np.where(labels[order], 1, -1))  # of flagging the first one, the first two, ...
    if errors.min() >= labels.sum():
        return np.zeros(len(features), np.bool_)
    return np.asarray(scores >= scores[order[errors.argmin()]])


def _f2(truth: Bools, flags: Bools) -> float:
    """Recall counts four times as much as precision: 5 tp / (5 tp + 4 fn + fp)."""
    hits, misses, alarms = (truth & flags).sum(), (truth & ~flags).sum(), (~truth & flags).sum()
    return float(5 * hits / max(5 * hits + 4 * misses + alarms, 1))


def weighted_f2(truth: Bools, flags: Bools) -> float:
    """F2 of both classes, each weighted by its size: the score of the published experiments."""
    share = truth.mean()
    return float(share * _f2(truth, flags) + (1 - share) * _f2(~truth, ~flags))
