# SPDX-License-Identifier: MIT
"""The ranges that receipts acknowledge: all settled numbers where they fit, else every number sooner or later."""

from __future__ import annotations

import numpy as np
import pytest

from peel_core.receipts import MAX_RUNS
from peel_gateway.model.tables import NO_HOLES, Positions
from peel_gateway.screening.numbers import MOST_HOLES, AckRanges, UsedNumbers, ack_ranges_of, enter


def seen_of(*devices: list[int]) -> UsedNumbers:
    """Return the record of used numbers of devices that sent these."""
    zeros = np.zeros(len(devices), np.int64)
    nothing = UsedNumbers(zeros, zeros.copy(), np.full(len(devices), NO_HOLES, np.object_), zeros.copy())
    at = Positions(np.repeat(np.arange(len(devices)), [len(numbers) for numbers in devices]))
    return enter(nothing, at, np.concatenate([np.zeros(0, np.int64), *(np.array(numbers) for numbers in devices)]))


def told(said: AckRanges, device: int, numbers: range) -> list[int]:
    """Those of the numbers that a device is told are settled."""
    begin = 0 if device == 0 else said.run_ends[device - 1]
    runs = said.runs[begin : said.run_ends[device]]
    return [n for n in numbers if n <= said.upto[device] or np.any((runs[:, 0] <= n) & (n <= runs[:, 1]))]


def test_each_device_is_told_of_its_own() -> None:
    seen = seen_of([1, 2, 3], [2, 3, 7, 9, 10], [5])
    said = ack_ranges_of(seen, np.array([1, 2, 5]))
    assert said.upto.tolist() == [3, 0, 0]
    assert [told(said, device, range(1, 13)) for device in range(3)] == [[1, 2, 3], [2, 3, 7, 9, 10], [5]]


def test_no_device() -> None:
    said = ack_ranges_of(seen_of(), np.zeros(0, np.int64))
    assert (len(said.upto), len(said.runs), len(said.run_ends)) == (0, 0, 0)


def test_what_was_given_up_counts_as_settled() -> None:
    every_other = list(range(2, 2 * MOST_HOLES + 10, 2))
    said = ack_ranges_of(seen_of(every_other), np.array([2]))
    assert said.upto[0] > 1, "the lowest holes were given up, and their numbers will never be stored"


@pytest.mark.parametrize("gap", [2, 5])
def test_whatever_a_device_keeps_is_answered_in_the_end(gap: int, rng: np.random.Generator) -> None:
    """A device that holds every used number drops what it is told of, and sends the rest again, until it holds nothing."""
    used = list(range(3, 3 + 300 * gap, gap))
    seen = seen_of(used)
    kept = sorted(rng.choice(used, 200, replace=False).tolist())
    for _ in range(1 + len(used) // (MAX_RUNS // 2)):
        if not kept:
            break
        said = ack_ranges_of(seen, np.array([kept[0]]))
        assert len(said.runs) == MAX_RUNS
        gone = set(told(said, 0, range(1, used[-1] + 1)))
        assert gone <= set(used) | {1, 2}, "nothing that is not settled"
        assert kept[0] in gone
        assert used[-MAX_RUNS // 2 :] == sorted(gone)[-MAX_RUNS // 2 :], "the newest are always among them"
        kept = [number for number in kept if number not in gone]
    assert kept == []
