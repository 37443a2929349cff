# SPDX-License-Identifier: MIT
"""PEEL as its paper writes it (Shuai et al. 2025), small and slow, to measure its own claims.

A report s with one entry is normalised within itself (its z-score: plus or minus sqrt(k-1) there, minus or plus 1/sqrt(k-1) elsewhere),
projected by a Gaussian Phi of k-1 rows, and sent as k-1 coordinates of ceil(log2(k-1)) bits. The gateway multiplies by
Gamma = W (Phi W)^-1, compares with the 2k patterns that there can be, and keeps the sign at the largest entry. Nothing of Peel's own
encoder is used here. What the paper leaves open is filled in its favour: coordinates are rounded evenly over the range that honest
reports need, and a report is exposed when its residual exceeds that of every honest one, so that none of them ever is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, log2, sqrt

import numpy as np

from peel_research.lab.mechanisms import Mechanism
from peel_research.lab.mechanisms.sampling import Floats, Ints, Sparse

__all__ = [
    "ATTACKS",
    "Decoded",
    "Exposure",
    "PaperAttack",
    "PaperCode",
    "SignsOnly",
    "Wire",
    "coordinate_bits",
    "exposures",
    "report_bits",
    "signs_only",
    "wire",
]

_ROUNDING = 1e-7
"""Residuals of honest reports on an exact wire stay well below."""


def coordinate_bits(k: int) -> int:
    """ceil(log2(k - 1)): what the paper spends on each of k - 1 coordinates."""
    return ceil(log2(k - 1))


def report_bits(k: int) -> int:
    """Of a whole report, by the paper's formula; for k = 252 it prints 2,016."""
    return (k - 1) * coordinate_bits(k)


@dataclass(frozen=True)
class Decoded:
    """The gateway's decoding of N reports."""

    index: Ints
    sign: Ints
    residual: Floats
    """Distance to the nearest of the 2k patterns, relative to its norm, sqrt(k)."""


@dataclass(frozen=True)
class PaperCode:
    """One public Phi, and the wire behind it."""

    k: int
    seed: int
    exact: bool = False
    """Send the coordinates as real numbers, which no wire does, instead of rounded ones."""

    @property
    def phi(self) -> Floats:
        """Gaussian, float64[k - 1, k]."""
        return _matrices(self.k, self.seed)[0]

    @property
    def gamma(self) -> Floats:
        """W (Phi W)^-1, float64[k, k - 1], with W an orthonormal basis of the complement of the all-ones vector."""
        return _matrices(self.k, self.seed)[1]

    @cached_property
    def reach(self) -> float:
        """The largest coordinate of an honest report: the wire's range."""
        return float(np.abs(_normalised(np.eye(self.k)) @ self.phi.T).max())

    @cached_property
    def codebook(self) -> Floats:
        """The 2k honest messages, float64[2k, k - 1], plus before minus."""
        return self.encode(np.concatenate([np.eye(self.k), -np.eye(self.k)]))

    @cached_property
    def threshold(self) -> float:
        """The least residual from which on no honest report is exposed."""
        return float(self.decode(self.codebook).residual.max()) * (1 + 1e-9) + (_ROUNDING if self.exact else 0)

    def encode(self, s: Floats) -> Floats:
        """The messages of reports float64[N, k], float64[N, k - 1]."""
        return self.rounded(_normalised(s) @ self.phi.T)

    def rounded(self, y: Floats) -> Floats:
        """Return coordinates rounded for the wire: the middle of one of 2^bits equal steps, as many above zero as below."""
        if self.exact:
            return y
        steps = 2 ** coordinate_bits(self.k)
        step = 2 * self.reach / steps
        return np.asarray((np.clip(np.floor(y / step), -(steps // 2), steps // 2 - 1) + 0.5) * step)

    def decode(self, y: Floats) -> Decoded:
        """Reconstruct, compare, restore. The nearest pattern is that of the largest entry: all have one norm, and rows sum to zero."""
        s = y @ self.gamma.T
        rows = np.arange(len(s))
        index = np.argmax(np.abs(s), axis=1)
        sign = np.where(s[rows, index] < 0, -1, 1)
        elsewhere = 1 / sqrt(self.k - 1)
        s += (sign * elsewhere)[:, None]
        s[rows, index] -= sign * (sqrt(self.k - 1) + elsewhere)
        return Decoded(index, sign, np.linalg.norm(s, axis=1) / sqrt(self.k))


@lru_cache(maxsize=32)
def _matrices(k: int, seed: int) -> tuple[Floats, Floats]:
    phi = np.random.default_rng(seed).standard_normal((k - 1, k))
    w = np.linalg.qr(np.eye(k, k - 1) - 1 / k)[0]
    return phi, np.asarray(w @ np.linalg.inv(phi @ w))


def _normalised(s: Floats) -> Floats:
    """The z-score within each row."""
    return np.asarray((s - s.mean(axis=1, keepdims=True)) / s.std(axis=1, keepdims=True))


@dataclass(frozen=True)
class Wire:
    """Whether the paper's wire is lossless, over several Phi."""

    k: int
    bits: int
    """Of a report, by the paper's formula."""
    seeds: int
    residual: float
    """The worst honest residual of a Phi, relative to the norm: the median over them."""
    least_residual: float
    """The same of the best Phi."""
    wrong: float
    """Share of honest messages that come out as another one, over all Phi."""
    exact_residual: float
    """The worst honest residual of any Phi if nothing is rounded."""


def wire(k: int, seeds: int = 20) -> Wire:
    """Send every honest message under `seeds` different Phi."""
    worst, wrong, exact = np.empty(seeds), np.empty(seeds), np.empty(seeds)
    truth = np.tile(np.arange(k), 2), np.repeat([1, -1], k)
    for seed in range(seeds):
        code, ideal = PaperCode(k, seed), PaperCode(k, seed, exact=True)
        decoded = code.decode(code.codebook)
        worst[seed] = decoded.residual.max()
        wrong[seed] = np.mean((decoded.index != truth[0]) | (decoded.sign != truth[1]))
        exact[seed] = ideal.decode(ideal.codebook).residual.max()
    return Wire(
        k, report_bits(k), seeds, float(np.median(worst)), float(worst.min()), float(wrong.mean()), float(exact.max())
    )


@dataclass(frozen=True)
class _Sent:
    """Honest reports, and the messages they make."""

    index: Ints
    sign: Ints
    y: Floats


Forge = Callable[[PaperCode, _Sent, np.random.Generator], Floats]
"""Returns forged messages, float64[N, k - 1]."""


@dataclass(frozen=True)
class PaperAttack:
    """Something that the paper says is exposed, or does not speak of."""

    name: str
    place: str
    """The place where it acts: coin, encoder or wire."""
    knows: str
    forge: Forge


def _reports(k: int, index: Ints, sign: Ints, magnitude: float = 1.0) -> Floats:
    s = np.zeros((len(index), k))
    s[np.arange(len(index)), index] = sign * magnitude
    return s


def _untouched(code: PaperCode, sent: _Sent, rng: np.random.Generator) -> Floats:
    return sent.y


def _other_budget(code: PaperCode, sent: _Sent, rng: np.random.Generator) -> Floats:
    """A report of Harmony weighs k coth(eps / 2): here as if eps were 4 instead of 1."""
    return code.encode(_reports(code.k, sent.index, sent.sign, np.tanh(0.5) / np.tanh(2.0)))


def _any_report(code: PaperCode, sent: _Sent, rng: np.random.Generator) -> Floats:
    """The paper's output poisoning, v with probability proportional to exp(-eps |v - z|_1 / f): all other reports are 2 away."""
    own = sent.index + np.where(sent.sign > 0, 0, code.k)
    return np.asarray(code.codebook[(own + rng.integers(1, 2 * code.k, size=len(own))) % (2 * code.k)])


def _always_first(code: PaperCode, sent: _Sent, rng: np.random.Generator) -> Floats:
    return np.repeat(code.codebook[:1], len(sent.y), axis=0)


def _negated(code: PaperCode, sent: _Sent, rng: np.random.Generator) -> Floats:
    return -sent.y


def _replayed(code: PaperCode, sent: _Sent, rng: np.random.Generator) -> Floats:
    return np.repeat(sent.y[:1], len(sent.y), axis=0)


def _other_phi(code: PaperCode, sent: _Sent, rng: np.random.Generator) -> Floats:
    other = PaperCode(code.k, int(rng.integers(2**32, 2**33)), exact=True)
    return code.rounded(other.encode(_reports(code.k, sent.index, sent.sign)))


def _random_message(code: PaperCode, sent: _Sent, rng: np.random.Generator) -> Floats:
    return code.rounded(rng.uniform(-code.reach, code.reach, sent.y.shape))


def _noise(share: float) -> Forge:
    """Gaussian, of a share of the coordinates' root mean square."""

    def forge(code: PaperCode, sent: _Sent, rng: np.random.Generator) -> Floats:
        scale = share * sqrt(float(np.mean(np.square(sent.y))))
        return code.rounded(sent.y + scale * rng.standard_normal(sent.y.shape))

    return forge


ATTACKS: tuple[PaperAttack, ...] = (
    PaperAttack("none", "", "", _untouched),
    PaperAttack("another budget", "coin", "nothing", _other_budget),
    PaperAttack("another report (output poisoning)", "coin", "nothing", _any_report),
    PaperAttack("always one report", "encoder", "the public Phi", _always_first),
    PaperAttack("replay", "wire", "nothing", _replayed),
    PaperAttack("negation", "wire", "nothing", _negated),
    PaperAttack("noise on y, 1%", "wire", "nothing", _noise(0.01)),
    PaperAttack("noise on y, 10%", "wire", "nothing", _noise(0.1)),
    PaperAttack("noise on y, 100%", "wire", "nothing", _noise(1.0)),
    PaperAttack("random message", "wire", "nothing", _random_message),
    PaperAttack("another Phi", "encoder", "nothing", _other_phi),
)
"""The attacks that the paper's residual is tested on. The first, for comparison, changes nothing."""


@dataclass(frozen=True)
class Exposure:
    """The result of an attack against the residual."""

    attack: str
    place: str
    knows: str
    k: int
    messages: int
    exposed: float
    """Share of the attacker's messages whose residual is above that of every honest one, on the paper's wire."""
    exposed_exact: float
    """The same on a wire that rounds nothing."""
    unseen: float
    """The share that is accepted although it differs from the honest report, on the paper's wire."""
    unseen_exact: float
    """The same on a wire that rounds nothing."""


def exposures(k: int, seeds: int = 5, messages: int = 200) -> list[Exposure]:
    """Play every attack against `seeds` different Phi, so many messages each."""
    wires = [[PaperCode(k, seed, exact) for seed in range(seeds)] for exact in (False, True)]
    rows = []
    for attack in ATTACKS:
        rounded, exact = (np.mean([_outcome(attack, code, messages) for code in codes], axis=0) for codes in wires)
        exposed, unseen = zip(rounded.tolist(), exact.tolist(), strict=True)
        rows.append(Exposure(attack.name, attack.place, attack.knows, k, seeds * messages, *exposed, *unseen))
    return rows


def _outcome(attack: PaperAttack, code: PaperCode, messages: int) -> tuple[float, float]:
    """Shares of messages that are exposed, and that are believed although they say something else."""
    rng = np.random.default_rng([code.seed, code.k])
    index, sign = rng.integers(code.k, size=messages), 2 * rng.integers(2, size=messages) - 1
    sent = _Sent(index, sign, code.encode(_reports(code.k, index, sign)))
    decoded = code.decode(attack.forge(code, sent, rng))
    exposed = decoded.residual > code.threshold
    changed = (decoded.index != index) | (decoded.sign != sign)
    return float(exposed.mean()), float((changed & ~exposed).mean())


@dataclass(frozen=True)
class SignsOnly:
    """The effect on estimates when normalisation removes the reports' magnitudes."""

    mechanism: str
    truth: float
    with_magnitude: float
    """The estimate from 1-sparse reports as they were made; the mean over attributes, as all three."""
    from_signs: float
    """The estimate from signs, all weighed with the mean magnitude, which nobody tells the gateway."""


def signs_only(mechanism: Mechanism, values: Floats, seed: int = 0) -> SignsOnly:
    """Estimate from the paper's 1-sparse reports before normalisation and after restoration, which leaves a sign and a place."""
    rng = np.random.default_rng(seed)
    sparse = mechanism.sparse_free(mechanism.perturb(values, rng), rng)
    signs = Sparse(sparse.index, np.sign(sparse.value) * np.abs(sparse.value).mean())
    means: Sequence[float] = [
        float(np.mean(each))
        for each in (mechanism.truth(values), mechanism.estimate_sparse(sparse), mechanism.estimate_sparse(signs))
    ]
    return SignsOnly(mechanism.name, *means)
