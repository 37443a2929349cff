# SPDX-License-Identifier: MIT
"""One report looked at closely: its bytes field by field, and the vector that they are reconstructed to."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Profile, open_many, projection
from peel_core.frame import DEVICE, HEADER_BYTES, NUMBER, PROFILE, TAG_BYTES, TRITS_AT
from peel_gateway.fleet.registry import device_label
from peel_gateway.fleet.snapshot import Snapshot
from peel_gateway.queries.table import Table

__all__ = ["dissection", "picture"]


def dissection(raw: bytes) -> list[Table]:
    """The fields of a frame, in order; of bytes that are too few for one, a single field."""
    if len(raw) <= TRITS_AT + TAG_BYTES:
        return [_field("bytes", raw, 0, len(raw), None)] if raw else []
    return [
        _field("version, flags", raw, 0, 1, f"{raw[0] >> 4}, {raw[0] & 15}"),
        _field("mechanism", raw, 1, 2, raw[1]),
        _field("profile", raw, PROFILE.start, PROFILE.end, f"{PROFILE.of(raw):08x}"),
        _field("device", raw, DEVICE.start, DEVICE.end, device_label(DEVICE.of(raw))),
        _field("number", raw, NUMBER.start, NUMBER.end, NUMBER.of(raw)),
        _field("sealed: rule and codeword", raw, HEADER_BYTES, len(raw) - TAG_BYTES, None),
        _field("tag", raw, len(raw) - TAG_BYTES, len(raw), None),
    ]


def _field(name: str, raw: bytes, start: int, end: int, value: Any) -> Table:
    return {"field": name, "at": start, "hex": raw[start:end].hex(), "value": value}


def picture(snapshot: Snapshot, raw: bytes, residual_limit: float) -> Table | None:
    """What a report is reconstructed to, beside the nearest admissible pattern; None for bytes that do not open.

    `vector` has `width` entries, of which the first `k` are attributes or categories and have `labels`. The admissible patterns are
    sign (e_place - 1/width); `residual` is the distance to the nearest, relative to its norm.
    """
    opened = open_many(snapshot.keyring, [raw], accept_unsealed=True)
    if len(opened) != 1 or opened.code[0] != 0:
        return None
    profile = snapshot.keyring.profiles[int(opened.profile[0])]
    trits = opened.trits[:, : profile.width - 1]
    gamma = _gamma(profile.seed, profile.width)
    place, sign, residual = projection.reconstruct(gamma, trits)
    return {
        "width": profile.width,
        "k": profile.k,
        "labels": _labels(profile),
        "vector": np.round((trits @ gamma.T)[0], 4).tolist(),
        "place": int(place[0]),
        "sign": int(sign[0]),
        "assigned": int(opened.index[0]) if profile.assigns and not profile.hash_domain else None,
        "residual": float(residual[0]),
        "limit": residual_limit,
    }


def _labels(profile: Profile) -> list[str]:
    return [str(place) if profile.hash_domain else profile.label(place) for place in range(profile.k)]


@lru_cache(maxsize=8)
def _gamma(seed: int, width: int) -> npt.NDArray[np.float32]:
    return projection.reconstruction(seed, width)
