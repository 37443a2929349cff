# SPDX-License-Identifier: MIT
"""What the core can refuse, by name."""

from __future__ import annotations

from peel_core._core import ffi, lib

_EXPLANATIONS = {
    "LENGTH": "a buffer or frame of the wrong length",
    "VERSION": "not a version 1 frame",
    "FLAGS": "reserved flag bits are set",
    "MECHANISM": "unknown mechanism, or not the profile's",
    "PROFILE": "unknown profile, or not this device's",
    "DEVICE": "unknown device, or device 0",
    "NUMBER": "report number 0 or above 48 bits",
    "UNSEALED": "an unsealed frame where a sealed one is asked for, or the other way round",
    "SEAL": "the seal does not fit: forged, altered, or another key",
    "TRITS": "trits that no encoder packs",
    "EPSILON": "epsilon out of range (above 0, up to 16), or too small for this many symbols",
    "WIDTH": "k or width out of range (k <= width <= 1024, and what the mechanism allows)",
    "READING": "a category that is not there, or not as many readings as the mechanism takes",
    "ENTROPY": "entropy refused by the health check, or a generator that was never seeded or is damaged",
    "RULE": "a rule of 0, or of 2^31 or more",
    "DOMAIN": "a number of categories out of range (2 to 65535), or one where the mechanism has none",
    "ORDER": "calls in the wrong order: absorbing after squeezing",
}

#: Error code (negative) to its short lower-case name, such as ``{-9: "seal"}``.
CODE_NAMES: dict[int, str] = {
    code: name.removeprefix("PEEL_E_").lower()
    for code, name in ffi.typeof("enum peel_error").elements.items()
    if code < 0
}


class PeelError(ValueError):
    """The core refused its input.

    Attributes
    ----------
    code : int
        The negative code of ``peel.h``.
    name : str
        Its short name, such as ``"seal"``.
    """

    def __init__(self, code: int, where: str = "") -> None:
        self.code = code
        self.name = CODE_NAMES[code]
        explanation = _EXPLANATIONS[self.name.upper()]
        super().__init__(f"{where}: {explanation}" if where else explanation)


def check(result: int, where: str = "") -> int:
    """Return a size or 0 as it is; raise :class:`PeelError` for a negative code."""
    if result < 0:
        raise PeelError(result, where)
    return result


CORE_VERSION: str = ffi.string(lib.core_version).decode()
