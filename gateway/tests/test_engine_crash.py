# SPDX-License-Identifier: MIT
"""SIGKILL at any moment: what was committed is whole, what was not is absent, and a redelivery makes it exact."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np
import pytest
from lab import Lab

from peel_gateway.engine.recount import recount
from peel_gateway.model.verdict import Verdict

BATCH = 40
KILLS = 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to be killed while it writes")
def test_killed_at_any_moment_under_load(lab: Lab, rng: np.random.Generator) -> None:
    """A child commits batches and tells of each; the parent kills it, starts it again, and resends what it was not told of."""
    frames = [frame for device in (1, 2, 3) for frame in lab.frames(device, range(1, 1301))]
    frames += [b"junk %d" % i for i in range(100)]
    rng.shuffle(frames)
    acknowledged = runs = 0
    lab.store.close()
    while acknowledged < len(frames):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _work(lab, frames[acknowledged:], writing)
        os.close(writing)
        patience = int(rng.integers(0, 5)) if runs < KILLS else len(frames)
        told = _listen(reading, patience, float(rng.uniform(0, 0.02)), child)
        acknowledged = min(len(frames), acknowledged + BATCH * told)
        runs += 1
    lab.reopen()
    counts = lab.store.counts().verdicts
    assert runs > KILLS
    assert (counts[Verdict.ACCEPTED], counts[Verdict.MALFORMED]) == (3900, 100)
    assert recount(lab.store, lab).agrees


def _work(lab: Lab, frames: list[bytes], writing: int) -> None:
    """Runs in the child: a new engine on the file, one byte to the parent after each commit."""
    try:
        lab.reopen()
        for start in range(0, len(frames), BATCH):
            lab.send(frames[start : start + BATCH])
            os.write(writing, b".")
        os._exit(0)
    except BaseException as error:
        print(f"child failed: {error!r}", file=sys.stderr)
        os._exit(1)


def _listen(reading: int, commits: int, linger: float, child: int) -> int:
    """Wait for some commits and a little longer, kill, and return how many commits the child had told of by then."""
    told = 0
    while told < commits and (data := os.read(reading, 1)):
        told += len(data)
    time.sleep(linger)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0, "the child failed by itself"
    while data := os.read(reading, 65536):
        told += len(data)
    os.close(reading)
    return told
