# SPDX-License-Identifier: MIT
"""Receipts: which of this device's reports the gateway has stored (SPEC section 11).

A receipt only removes frames that it names, so an old receipt does no harm. A forged one is refused.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.interfaces import Core

    Run = tuple[int, int]

RUNS_MAX = 16
_LABEL = b"peel/1 receipt"
_VERSION = 0x10
_NUMBERS_AT = 5
_NUMBER = 6
_TAG = 8
_SHORTEST = _NUMBERS_AT + _NUMBER + _TAG


class Reader:
    """Reads the receipts of one device."""

    def __init__(self, core: "Core", key: bytes, device: int) -> None:
        self._core = core
        self._key = key
        self._device = device

    def settled(self, receipt: bytes) -> "list[Run]":
        """Return the settled runs of numbers as (first, last). Raises ValueError with the reason if a receipt is invalid."""
        runs, rest = divmod(len(receipt) - _SHORTEST, 2 * _NUMBER)
        if rest or not 0 <= runs <= RUNS_MAX:
            raise ValueError("peel: length: a receipt cannot have %d bytes" % len(receipt))
        check_receipt(self._core, self._key, self._device, _VERSION, receipt)
        edges = [0]
        for at in range(_NUMBERS_AT, len(receipt) - _TAG, _NUMBER):
            edges.append(int.from_bytes(receipt[at : at + _NUMBER], "little"))
        return [(edges[at], edges[at + 1]) for at in range(0, len(edges), 2)]


def check_receipt(core: "Core", key: bytes, device: int, version: int, receipt: bytes) -> None:
    """Check the first byte, the device and the tag of a receipt. Raises ValueError with the reason."""
    if receipt[0] != version:
        raise ValueError("peel: version: not a receipt of version 1, or not for this kind of profile")
    if int.from_bytes(receipt[1:_NUMBERS_AT], "little") != device:
        raise ValueError("peel: device: the receipt is for another device")
    if not _equal(core.hash(_LABEL, key + receipt[:-_TAG], _TAG), receipt[-_TAG:]):
        raise ValueError("peel: seal: forged, altered, or made with another bundle's key")


def _equal(one: bytes, other: bytes) -> bool:
    """Compare in constant time."""
    difference = 0
    for place in range(_TAG):
        difference |= one[place] ^ other[place]
    return difference == 0
