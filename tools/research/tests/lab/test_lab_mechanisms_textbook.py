# SPDX-License-Identifier: MIT
"""Every mechanism against what its paper prints, by nothing but the reports that it makes: variances as they stand there, budgets as seen.

The formulas here are written down from the papers, not taken from the mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import comb, e, exp, gamma, pi, sqrt
from typing import Any

import numpy as np
import pytest
from lab_mechanisms import EACH, EPSILON, data, extremes, made
from numpy.typing import NDArray

from peel_research.lab.mechanisms import Mechanism

Values = NDArray[Any]
SIZE, ROWS, ROUNDS = 5, 40, 3000


def _pure(p: float, q: float) -> Callable[[Values], float]:
    """Wang et al. 2017, equation 3, of reports about given values: the mean over categories."""

    def variance(values: Values) -> float:
        size = _size(values)
        shares = np.bincount(values, minlength=size) / len(values)
        return float(np.mean(shares * p * (1 - p) + (1 - shares) * q * (1 - q)) / (p - q) ** 2 / len(values))

    return variance


def _size(values: Values) -> int:
    return 2 if values.max() == 1 else SIZE


def _one_sign(values: Values) -> float:
    """Nguyen et al. 2016; Duchi, Jordan, Wainwright 2018: k ((e^eps + 1)/(e^eps - 1))^2 - x^2."""
    return float(np.mean(SIZE * ((e + 1) / (e - 1)) ** 2 - values**2)) / len(values)


def _piecewise(values: Values) -> float:
    """Wang et al. 2019: x^2/(e^(eps/2) - 1) + (e^(eps/2) + 3)/(3 (e^(eps/2) - 1)^2) of one attribute, which is one of k."""
    root = exp(EPSILON / 2)
    square = values**2 + values**2 / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)
    return float(np.mean(SIZE * square - values**2)) / len(values)


def _duchi(values: Values) -> float:
    """Duchi, Jordan, Wainwright 2018: corners of C_d (e^eps + 1)/(e^eps - 1), C_d = 2^(d-1) / binom(d-1, (d-1)/2) for odd d."""
    bound = 2 ** (SIZE - 1) / comb(SIZE - 1, (SIZE - 1) // 2) * (e + 1) / (e - 1)
    return float(np.mean(bound**2 - values**2)) / len(values)


def _sphere(values: Values) -> float:
    """The same paper, for the ball: radius r sqrt(pi)/2 (e^eps + 1)/(e^eps - 1) d Gamma((d+1)/2)/Gamma(d/2 + 1), r that of the cube."""
    radius = sqrt(SIZE) * sqrt(pi) / 2 * (e + 1) / (e - 1) * SIZE * gamma((SIZE + 1) / 2) / gamma(SIZE / 2 + 1)
    return float(np.mean(radius**2 / SIZE - values**2)) / len(values)


def _laplace(values: Values) -> float:
    """Dwork et al. 2006: 2 b^2, with the budget shared by all attributes."""
    return 2 * (2 * SIZE / EPSILON) ** 2 / len(values)


def _hadamard(values: Values) -> float:
    """Acharya, Sun, Zhang 2019: a sign that is right with e^eps/(e^eps + 1) for the true category, and even for all others."""
    gain = ((e + 1) / (e - 1)) ** 2
    return float(((gain - 1) + (SIZE - 1) * gain) / SIZE) / len(values)


_MEMBERS = 2
_OWN = _MEMBERS * e / (_MEMBERS * e + SIZE - _MEMBERS)
_KEPT = 1 - 1 / (1 + exp(EPSILON / 2))
"""The probability that a permanent bit of RAPPOR is the true one."""
VARIANCES: Mapping[str, Callable[[Values], float]] = {
    "harmony": _one_sign,
    "duchi-1": _one_sign,
    "piecewise": _piecewise,
    "duchi": _duchi,
    "laplace": _laplace,
    "sphere": _sphere,
    "rr": _pure(e / (e + 1), 1 / (e + 1)),
    "krr": _pure(e / (e + SIZE - 1), 1 / (e + SIZE - 1)),
    "hashing": _pure(e / (e + 2), 1 / 3),  # three symbols are best of all primes at epsilon 1
    "hadamard": _hadamard,
    "subset-1": _pure(e / (e + SIZE - 1), 1 / (e + SIZE - 1)),
    "subset": _pure(_OWN, _OWN * (_MEMBERS - 1) / (SIZE - 1) + (1 - _OWN) * _MEMBERS / (SIZE - 1)),
    "sue": _pure(exp(0.5) / (exp(0.5) + 1), 1 / (exp(0.5) + 1)),
    "oue": _pure(0.5, 1 / (e + 1)),
    "rappor": _pure(0.75 * _KEPT + 0.5 * (1 - _KEPT), 0.5 * _KEPT + 0.75 * (1 - _KEPT)),
}


@EACH
def test_estimates_scatter_as_the_papers_say(kind: type[Mechanism]) -> None:
    mechanism, rng = made(kind, SIZE), np.random.default_rng(11)
    values = data(mechanism, ROWS, rng)
    truth = mechanism.truth(values)
    errors = np.array([mechanism.estimate(mechanism.perturb(values, rng)) - truth for _ in range(ROUNDS)])
    scatter = np.square(errors).mean(axis=1)
    assert scatter.mean() == pytest.approx(VARIANCES[mechanism.name](values), abs=5 * scatter.std() / sqrt(ROUNDS))
    assert np.abs(errors.mean(axis=0)).max() < 5 * errors.std(axis=0).max() / sqrt(ROUNDS), "unbiased"


@EACH
def test_no_report_is_seen_too_often_for_one_value_and_too_seldom_for_another(kind: type[Mechanism]) -> None:
    """Compare whole reports where few are possible, and the signs or sizes of their first numbers where many are."""
    mechanism, rng = made(kind, 3), np.random.default_rng(12)
    inputs, draws = extremes(mechanism), 60_000
    seen = [_told(mechanism, mechanism.perturb(np.repeat(value[None], draws, axis=0), rng)) for value in inputs]
    cells = sorted(set().union(*seen))
    counts = np.array([[each.get(cell, 0) for cell in cells] for each in seen], np.float64)
    most, least = counts.max(axis=0), counts.min(axis=0)
    common = least > 400
    assert common.any()
    slack = 5 * np.sqrt(1 / most[common] + 1 / least[common])
    ratios = np.log(most[common] / least[common])
    assert (ratios <= EPSILON + slack).all()
    assert ratios.max() > 0.5 * mechanism.report_epsilon, "so that the test could have failed"


def _told(mechanism: Mechanism, reports: NDArray[Any]) -> dict[tuple[int, ...], int]:
    """Return the count of each report. Real numbers are rounded down to steps."""
    rows = reports.reshape(len(reports), -1).astype(np.float64)
    if mechanism.name in ("piecewise", "laplace", "sphere"):
        rows = np.floor(rows * {"piecewise": 2, "laplace": 0.1, "sphere": 1}[mechanism.name])
    found, counts = np.unique(rows, axis=0, return_counts=True)
    return {tuple(row): int(count) for row, count in zip(found.astype(int).tolist(), counts, strict=True)}
