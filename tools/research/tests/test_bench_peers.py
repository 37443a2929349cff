# SPDX-License-Identifier: MIT
"""The comparison with other libraries, in short; and what is said where none is installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from peel_gateway.exits import Exit
from peel_research.bench.peers import PeersMissingError, Task, installed, measure, prio3_histogram_bits

#: How many times the fastest of the others, at least; by itself it is 5 and 30.
AHEAD = {"krr": 2.5, "hashing": 5}
WITHOUT = """
import sys
sys.modules["pure_ldp"] = sys.modules["multi_freq_ldpy"] = None
from peel_tools.cli import main
main(["bench", "peers"])
"""


def test_nobody_to_compare_with_is_said_plainly() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == Exit.MISSING
    assert "pip install 'peel-research[peers]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("length", "chunk", "shares", "leader"), [(4, 2, 2, 272), (11, 3, 3, 544)])
def test_sizes_are_those_of_published_vectors(length: int, chunk: int, shares: int, leader: int) -> None:
    """draft-irtf-cfrg-vdaf-13, Prio3Histogram_0 and _1: helpers have 64 bytes each, the public share 32 for each aggregator."""
    total = 16 + 32 * shares + leader + 64 * (shares - 1)
    assert prio3_histogram_bits(length, chunk, shares) == 8 * total


def test_ours_are_ahead() -> None:
    tasks = [Task("krr", 16, 20_000), Task("hashing", 128, 4000)]
    if not all(map(installed, tasks)):  # not on every Python there is
        with pytest.raises(PeersMissingError):
            measure(tasks)
        return
    figures = measure(tasks)
    assert figures.keys() == {"krr", "hashing", "bits_per_report"}
    for task in tasks:
        found = figures[task.name]
        assert found["ratio"]["bare"].keys() == {"encode_per_s", "aggregate_per_s"}
        for each in [*found["ours"].values(), *found["theirs"].values()]:
            assert each["largest_error"] < 0.2
        assert found["ratio"]["bare"]["encode_per_s"] > AHEAD[task.name]
    bits = figures["bits_per_report"]["k252"]
    assert bits["prio3_over_hashing"] > 10
