"""The LDP guarantee as a statement about integers, against e^epsilon to 60 digits."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest

from peel_core.primitives import EPSILON_ONE, RULE_ONE, rule

#: 0.001 to 16: every power-of-two neighbourhood, an even grid, and a geometric one.
GRID = sorted(
    {max(1, (1 << bit) + d) for bit in range(25) for d in (-1, 0, 1) if (1 << bit) + d <= 16 * EPSILON_ONE}
    | set(range(EPSILON_ONE // 1000, 16 * EPSILON_ONE + 1, 9973))
    | {int(EPSILON_ONE * 0.001 * 1.01**i) for i in range(973)}
)


def exp_bounds(epsilon: int) -> tuple[Decimal, Decimal]:
    """Rational bounds below and above e^(epsilon / 2^20)."""
    with localcontext() as context:
        context.prec = 60
        value = (Decimal(epsilon) / EPSILON_ONE).exp()
        slack = Decimal(10) ** -55 * value
        return value - slack, value + slack


def is_private(rule_: int, k: int, bound: Decimal) -> bool:
    """(2^31 + (k-1) R) / (2^31 - R) <= bound, without division."""
    with localcontext() as context:
        context.prec = 90
        return Decimal(RULE_ONE + (k - 1) * rule_) <= Decimal(RULE_ONE - rule_) * bound


def test_harmony_is_private_and_tight_on_a_dense_grid() -> None:
    assert len(GRID) > 2500
    assert GRID[-1] == 16 * EPSILON_ONE
    for epsilon in GRID:
        below, above = exp_bounds(epsilon)
        tau = rule(epsilon, 2)
        assert is_private(tau, 2, below), epsilon
        assert not is_private(tau + 1, 2, above), epsilon


@pytest.mark.parametrize("epsilon", [1049, EPSILON_ONE // 10, EPSILON_ONE, 4 * EPSILON_ONE, 16 * EPSILON_ONE])
def test_krr_is_private_and_tight_for_every_k(epsilon: int) -> None:
    below, above = exp_bounds(epsilon)
    for k in range(2, 1025):
        keep = rule(epsilon, k)
        assert is_private(keep, k, below), k
        assert not is_private(keep + 1, k, above), k


def test_harmony_probabilities_stay_within_the_bound_for_every_reading() -> None:
    """P(+) is 2^31 ± floor(|x| R / 2^15), in [2^31 - R, 2^31 + R] for every Q15 reading, and reaches both ends."""
    tau = rule(EPSILON_ONE, 2)
    thresholds = [RULE_ONE + (x * tau >> 15 if x >= 0 else -(-x * tau >> 15)) for x in range(-32768, 32769)]
    assert min(thresholds) == RULE_ONE - tau
    assert max(thresholds) == RULE_ONE + tau
    assert thresholds == sorted(thresholds)


def test_krr_probabilities_exhaustively_in_a_small_world() -> None:
    """Count every outcome of the coin and of the replacement: the ratio of any two rows is at most e^epsilon."""
    for epsilon, k in ((EPSILON_ONE, 3), (2 * EPSILON_ONE, 5), (EPSILON_ONE // 4, 8)):
        keep = rule(epsilon, k)
        # of 2^32 coins, 2 keep land on the truth; the rest spread evenly over k
        truth, other = 2 * keep * k + (2**32 - 2 * keep), 2**32 - 2 * keep
        assert truth + (k - 1) * other == k * 2**32
        below, _ = exp_bounds(epsilon)
        assert Decimal(truth) <= Decimal(other) * below
