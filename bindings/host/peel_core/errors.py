# SPDX-License-Identifier: MIT
"""The core's error codes, with their names and explanations."""

from __future__ import annotations

from peel_core._core import ffi, lib

_EXPLANATIONS = {
    "LENGTH": "a buffer or frame has the wrong length",
    "VERSION": "not a version 1 frame",
    "FLAGS": "reserved bits are set",
    "BLOCK": "a block of unknown form, weight (1 to 16) or number of questions out of range, or not 1 to 32 blocks",
    "PROFILE": "unknown profile, or not this device's",
    "DEVICE": "unknown device, or device 0",
    "NUMBER": "report number is 0 or above 48 bits",
    "UNSEALED": "an unsealed frame where a sealed one is required, or the reverse",
    "SEAL": "the seal is wrong: the frame is forged, altered, or made with another key",
    "TRITS": "invalid trits: no encoder produces them",
    "WIDTH": "symbols or width out of range (the columns of all blocks must fit in width <= 1024)",
    "READING": "a category out of range, not one reading per question, or no unused column for a missing reading",
    "ENTROPY": "entropy refused by the health check, or a generator that is unseeded or damaged",
    "ODDS": "odds out of range (1 <= change < keep <= 255)",
    "DOMAIN": "number of categories out of range (2 to 65535), or given for a form that has none",
    "ORDER": "calls in the wrong order: absorb after squeeze",
    "COIN": "odds or symbols that no verified coin has (a table has at most 64 outcomes), or an index beyond its table",
    "OUTCOME": "the opening reveals an outcome that the coin does not have",
    "ROOT": "the opening does not lead to the root that was committed",
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
    """Return a size or 0 unchanged; raise :class:`PeelError` for a negative code."""
    if result < 0:
        raise PeelError(result, where)
    return result


CORE_VERSION: str = ffi.string(lib.core_version).decode()
