# SPDX-License-Identifier: MIT
"""Keys, and a type that keeps secrets out of logs."""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from peel_core._core import lib

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KEY_BYTES: int = lib.PEEL_KEY_BYTES
MASTER_BYTES = 32
SALT_BYTES = 16
_FLEET = re.compile(r"[a-z][a-z0-9-]{0,31}")


class Secret:
    """Bytes that are not shown by ``repr``, ``str``, ``format``, pickles or logs.

    >>> Secret(b"key")
    Secret(3 bytes)
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = bytes(value)

    def reveal(self) -> bytes:
        """Return the bytes. Review every call."""
        return self._value

    def __len__(self) -> int:
        return len(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value, other._value)

    __hash__ = None  # type: ignore[assignment]  # a hash would leak equality into dict order

    def __repr__(self) -> str:
        return f"Secret({len(self._value)} bytes)"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Secret cannot be pickled")


@dataclass(frozen=True, eq=False)
class Keys:
    """The keys of B bundles (SPEC section 3), each uint8[B, 16]. The repr does not show them."""

    seal: NDArray[np.uint8]
    index: NDArray[np.uint8]
    receipt: NDArray[np.uint8]
    coin: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.seal)

    def of(self, rows: Sequence[int] | NDArray[np.integer[Any]]) -> Keys:
        """Return the keys of some bundles, by position. A position may be repeated."""
        return Keys(self.seal[rows], self.index[rows], self.receipt[rows], self.coin[rows])

    def __repr__(self) -> str:
        return f"Keys({len(self)} bundles)"


def check_fleet_name(fleet: str) -> None:
    """Raise ValueError unless ``fleet`` is a valid fleet name for topics and the key schedule."""
    if not _FLEET.fullmatch(fleet):
        raise ValueError(f"fleet name {fleet!r}: use 1 to 32 of a-z, 0-9 and '-', starting with a letter")
