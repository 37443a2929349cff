# SPDX-License-Identifier: MIT
"""The gateway's time, which does not depend on corrections of the wall clock.

While the machine runs, time comes from a monotonic clock. The wall clock only tells how long the machine was off. If it is earlier than
before, that is unknown, and the gateway's time is *behind* until the wall clock is set.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from peel_gateway.model.gateway_time import STEP, GatewayTime

__all__ = ["Reading", "advance", "believe", "read_clock"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the former also counts while the machine sleeps


@dataclass(frozen=True)
class Reading:
    """A reading of the machine's clocks."""

    wall: int
    """Unix milliseconds. May be wrong, and may be set."""
    boot: int
    """Boot id. Values of `steady` are comparable within one boot."""
    steady: int
    """Milliseconds of the monotonic clock."""


def advance(last: GatewayTime, now: Reading) -> GatewayTime:
    """Return the gateway's time now, given the last one.

    The tick grows by the time that passed. A wall clock set back subtracts nothing. One set forward adds the jump once, because it may have
    been wrong until then: this favours devices.
    """
    if last.wall == 0:
        return GatewayTime(wall=now.wall, seen=now.wall, boot=now.boot, steady=now.steady)
    same_boot = now.boot == last.boot and now.steady >= last.steady
    lived = now.steady - last.steady if same_boot else 0
    behind = last.behind if same_boot or now.wall >= last.seen else last.seen
    if now.wall >= behind:
        behind = 0
    before = last.wall if same_boot and not last.behind else last.seen
    passed = lived if behind else max(lived, now.wall - before)
    wall = last.wall + passed
    was_set = same_boot and not (behind or last.behind) and abs(now.wall - last.seen - lived) > STEP
    return GatewayTime(
        tick=last.tick + passed,
        wall=wall,
        seen=last.seen + passed if behind else now.wall,
        boot=now.boot,
        steady=now.steady,
        behind=behind,
        stepped=wall if was_set or passed - lived > STEP else last.stepped,
    )


def believe(last: GatewayTime, now: Reading) -> GatewayTime:
    """Return the gateway's time now, after an operator has confirmed the wall clock. Retention then pauses for a day."""
    moment = advance(last, now)
    return replace(moment, seen=now.wall, behind=0, stepped=moment.wall)


def read_clock() -> Reading:
    """Read the machine's clocks."""
    return Reading(round(time.time() * 1000), _boot(), round(time.clock_gettime(_STEADY) * 1000))


@functools.cache
def _boot() -> int:
    """Return a number for this boot, or for this process if the system has no boot id."""
    try:
        text = _BOOT_ID.read_bytes()
    except OSError:
        text = os.urandom(16)
    return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "little")
