# SPDX-License-Identifier: MIT
"""Where things are in a frame: offsets and sizes of peel.h (SPEC section 4), for whoever must look at the bytes themselves."""

from __future__ import annotations

from peel_core._core import lib

__all__ = ["FLAG_UNSEALED", "HEADER_BYTES", "RULE_BYTES", "TAG_BYTES"]

FLAG_UNSEALED: int = int(lib.PEEL_FLAG_UNSEALED)
"""In the low nibble of byte 0."""
HEADER_BYTES: int = int(lib.PEEL_HEADER_BYTES)
"""The rule follows the header, the trits follow the rule, the tag is last (where there is one)."""
RULE_BYTES: int = int(lib.PEEL_RULE_BYTES)
TAG_BYTES: int = int(lib.PEEL_TAG_BYTES)
