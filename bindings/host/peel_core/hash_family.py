# SPDX-License-Identifier: MIT
"""The hash family of a profile with local hashing: its symbols, digits and hashes (SPEC section 6.3)."""

from __future__ import annotations

from peel_core._core import lib

__all__ = ["MAX_DOMAIN", "MAX_SYMBOLS", "digits", "hash_count", "symbols"]

MAX_DOMAIN = int(lib.PEEL_MAX_DOMAIN)
MAX_SYMBOLS = int(lib.PEEL_MAX_HASH_SYMBOLS)
#: Prime p to floor(2^20 ln((p - 1)(q - 1)) / 2), q the next prime: the largest epsilon at which p has the lowest variance.
_LIMITS = {
    2: 363408, 3: 1090226, 5: 1666215, 7: 2146615, 11: 2510024, 13: 2756441, 17: 2969022, 19: 3135983, 23: 3367631, 29: 3530241,
    31: 3662002, 37: 3812831, 41: 3893650, 43: 3966926, 47: 4078900, 53: 4200431, 59: 4275457, 61: 4343201, 67: 4424020, 71: 4469639,
    73: 4526374, 79: 4594560, 83: 4657803, 89: 4740446, 97: 4807468, 101: 4839253, 103: 4869802, 107: 4899770, 109: 4928637,
    113: 5009456,
}  # fmt: skip


def symbols(epsilon_q20: int) -> int:
    """Return k, a prime: the number of symbols that categories are hashed into at this epsilon."""
    return next((prime for prime, limit in _LIMITS.items() if epsilon_q20 <= limit), MAX_SYMBOLS)


def digits(k: int, domain: int) -> int:
    """Return m, the number of base-k digits of a category."""
    count = 1
    while k**count < domain:
        count += 1
    return count


def hash_count(k: int, domain: int) -> int:
    """Return the number of hashes that a report number can assign."""
    return int(k ** digits(k, domain))
