# SPDX-License-Identifier: MIT
"""A malicious gateway learns the odds from a simulated device, and the explorer finds devices that say more."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import inf

import pytest

from peel_core.coin_receipts import CoinReceipt
from peel_research.promise.verified_gateway import HostDevice, Step, coin_profile, excess, explore, honest_steps


@pytest.mark.parametrize(("epsilon", "symbols"), [(0.7, 2), (0.7, 3), (1.0, 2)])
def test_a_malicious_gateway_learns_the_odds(epsilon: float, symbols: int) -> None:
    profile = coin_profile(epsilon, symbols)
    build, steps = partial(HostDevice, profile), honest_steps(profile)
    explored = explore(build, 2, steps[:2], steps[:3], steps)
    assert explored.states > 400
    assert {len(entries) for _, entries, _ in explored.sights} == {0, 1}
    assert not any(revealed for _, _, revealed in explored.sights)
    assert excess(build, explored) == 0


def test_the_masked_answer_alone_says_nothing() -> None:
    profile = coin_profile(0.7, 2)
    build, steps = partial(HostDevice, profile), honest_steps(profile)
    explored = explore(build, 0, steps[:3])
    assert set(explored.sights) == {(9, frozenset(), False)}
    assert (1 + excess(build, explored)) * 2 == Fraction(1)


class _AnswersAgain(HostDevice):
    """Answers a challenge of a number that it has opened."""

    def take(self, step: Step) -> list[bytes]:
        if isinstance(step, CoinReceipt):
            self._device._challenges.clear()
            if self.reported:
                self._device._reported[self.reported] = True
        return super().take(step)


class _ReportsRevealed(HostDevice):
    """Takes a second audit of a batch."""

    def take(self, step: Step) -> list[bytes]:
        messages = super().take(step)
        if isinstance(step, CoinReceipt) and step.audit:
            for batch in self._device._batches:
                if batch.first == step.audit_first:
                    batch.audit, self._device._approved = step.audit, 0
            messages += self._device.messages()
        return messages


@pytest.mark.parametrize("device", [_AnswersAgain, _ReportsRevealed])
def test_the_explorer_finds_a_device_that_breaks_a_rule(device: type[HostDevice]) -> None:
    profile = coin_profile(0.7, 2)
    build, steps = partial(device, profile), honest_steps(profile)
    assert excess(build, explore(build, 1, steps[:3], steps)) == inf
