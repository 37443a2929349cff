# SPDX-License-Identifier: MIT
"""The gateway's own time: how much has passed, whatever the wall clock says.

While the machine runs, time is taken from a clock that nobody sets. The wall clock says only how long the machine was off; when it says
less than nothing, nobody knows how long, and the gateway's time is *behind* until the wall clock has been put right.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from peel_gateway.model.moment import STEP, Moment

__all__ = ["Reading", "advance", "believe", "read_clock"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the former counts while the machine sleeps


@dataclass(frozen=True)
class Reading:
    """What the machine's clocks say."""

    wall: int
    """Unix milliseconds: may be wrong, and may be set."""
    boot: int
    """Which start of the machine; `steady` can be compared within one."""
    steady: int
    """Milliseconds since some moment of that start."""


def advance(last: Moment, now: Reading) -> Moment:
    """Go on from `last`.

    The tick gets what has passed. A wall clock set back takes nothing away; one set forward grants the jump, once, because it may have been
    wrong until then: that favours devices.
    """
    if last.wall == 0:
        return Moment(wall=now.wall, seen=now.wall, boot=now.boot, steady=now.steady)
    same_boot = now.boot == last.boot and now.steady >= last.steady
    lived = now.steady - last.steady if same_boot else 0
    behind = last.behind if same_boot or now.wall >= last.seen else last.seen
    if now.wall >= behind:
        behind = 0
    before = last.wall if same_boot and not last.behind else last.seen
    passed = lived if behind else max(lived, now.wall - before)
    wall = last.wall + passed
    was_set = same_boot and not (behind or last.behind) and abs(now.wall - last.seen - lived) > STEP
    return Moment(
        tick=last.tick + passed,
        wall=wall,
        seen=last.seen + passed if behind else now.wall,
        boot=now.boot,
        steady=now.steady,
        behind=behind,
        stepped=wall if was_set or passed - lived > STEP else last.stepped,
    )


def believe(last: Moment, now: Reading) -> Moment:
    """Go on from `last` on somebody's word that the wall clock is right, whatever it was before; for a day nothing is deleted by it."""
    moment = advance(last, now)
    return replace(moment, seen=now.wall, behind=0, stepped=moment.wall)


def read_clock() -> Reading:
    """Read the machine's clocks."""
    return Reading(round(time.time() * 1000), _boot(), round(time.clock_gettime(_STEADY) * 1000))


@functools.cache
def _boot() -> int:
    """A number for this start of the machine; where the system does not tell, for this process."""
    try:
        text = _BOOT_ID.read_bytes()
    except OSError:
        text = os.urandom(16)
    return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "little")
