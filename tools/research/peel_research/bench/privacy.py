# SPDX-License-Identifier: MIT
"""The privacy loss over time: devices with a constant reading, and a gateway that keeps every report."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile, derive_keys, encode_many, make_profile, open_many
from peel_core.projection import reconstruct, reconstruction, search_seed
from peel_gateway.planning.task import composed_epsilon
from peel_tools.simulation.traces import to_q15

__all__ = ["measure"]

Signs = npt.NDArray[np.int8]

DELTA = 1e-6
DAYS = {"day": 1, "month": 30, "year": 365}
_WIDTH = 48
_CHUNK = 50_000


def measure(
    *, epsilon: float, interval: float, reading: float, low: float, high: float, devices: int, stretches: list[str]
) -> dict[str, Any]:
    """The figures of ``peel bench privacy``.

    Each device reports one attribute for the longest stretch; every shorter one that fits into it is one more sample. The gateway's
    best guess is the mean of the signs, scaled up: what an estimate does, for one device alone.
    """
    profile = _profile(epsilon, low, high)
    counts = {name: int(DAYS[name] * 86400 / interval) for name in stretches}
    signs = [_signs(profile, device, max(counts.values()), reading) for device in range(1, devices + 1)]
    return {
        "epsilon": profile.epsilon,
        "interval_s": interval,
        "reading": reading,
        "range": [low, high],
        "devices": devices,
        "delta": DELTA,
        **{name: _figures(profile, count, signs, reading) for name, count in counts.items()},
    }


def _figures(profile: Profile, count: int, signs: list[Signs], reading: float) -> dict[str, Any]:
    (attribute,), (block,) = profile.attributes, profile.blocks
    half = (attribute.high - attribute.low) / 2
    means = np.concatenate([_means(each, count) for each in signs])
    guesses = (attribute.high + attribute.low) / 2 + half * means * block.cap
    truth = (2 * reading - attribute.high - attribute.low) / (2 * half)
    deviation = half * math.sqrt((block.cap**2 - truth**2) / count)
    return {
        "reports": count,
        "epsilon": round(profile.epsilon * count, 3),
        "epsilon_at_delta": round(composed_epsilon(profile.epsilon, count, DELTA), 3),
        "samples": len(guesses),
        "error": float(f"{np.sqrt(np.mean((guesses - reading) ** 2)):.3g}"),
        "expected_error": float(f"{deviation:.3g}"),
    }


def _profile(epsilon: float, low: float, high: float) -> Profile:
    return make_profile(
        {
            "name": "constant",
            "epsilon": epsilon,
            "verify": False,
            "width": _WIDTH,
            "seed": search_seed(_WIDTH, 1)[0],
            "quota": 1,
            "period": 1,
            "attribute": [{"name": "reading", "kind": "mean", "low": low, "high": high}],
        }
    )


def _signs(profile: Profile, device: int, count: int, reading: float) -> Signs:
    """The coins of a device as the gateway sees them, from real frames, int8[count]."""
    keys = derive_keys(os.urandom(32), "bench", [device], 1, bytes(16))
    ring = Keyring([profile], [device], 1, [0], keys)
    gamma = reconstruction(profile.seed, profile.width)
    constant = to_q15(profile.attributes[0], profile.questions[0], np.array([reading]))[:, None]
    signs = np.empty(count, np.int8)
    for start in range(0, count, _CHUNK):
        numbers = np.arange(start + 1, min(start + _CHUNK, count) + 1)
        each = np.zeros(len(numbers), np.int64)
        frames = encode_many(
            profile,
            each + device,
            keys.of(each),
            numbers,
            np.repeat(constant, len(numbers), axis=0),
            entropy=os.urandom(64),
        )
        signs[start : start + len(numbers)] = reconstruct(gamma, open_many(ring, [frames.tobytes()]).trits)[1]
    return signs


def _means(signs: Signs, count: int) -> npt.NDArray[np.float64]:
    """The mean of every whole stretch of `count` coins."""
    whole = len(signs) // count
    return np.asarray(signs[: whole * count].reshape(whole, count).mean(axis=1))
