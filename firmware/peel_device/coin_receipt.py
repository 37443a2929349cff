# SPDX-License-Identifier: MIT
"""Receipts with coin fields (SPEC section 13.3), the only receipts of a device with a verified profile."""

from peel_device.receipt import RUNS_MAX, check_receipt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.interfaces import Core
    from peel_device.receipt import Run

CHALLENGE_RUNS_MAX = 64
VERSION = 0x11
_RUNS_AT = 41
_SHORTEST = _RUNS_AT + 8
_CHALLENGE_HEAD = 22  # seed and first number


class CoinReceipt:
    """The content of a receipt. Runs are (first, last)."""

    def __init__(self, receipt: bytes) -> None:
        settled, asked = receipt[39], receipt[40]
        self.settled: "list[Run]" = [(0, _integer(receipt, 5, 6))]
        self.era = _integer(receipt, 11, 8)
        self.approved = _integer(receipt, 19, 6)
        self.audit_first = _integer(receipt, 25, 6)
        self.audit = _integer(receipt, 31, 4)
        self.opened = _integer(receipt, 35, 4)
        self.seed = b""
        self.challenge: "list[Run]" = []
        at = _RUNS_AT
        for _ in range(settled):
            self.settled.append((_integer(receipt, at, 6), _integer(receipt, at + 6, 6)))
            at += 12
        if asked:
            self.seed = receipt[at : at + 16]
            self.challenge = read_runs(receipt, at + 16, asked)


class CoinReader:
    """Reads the receipts of one device."""

    def __init__(self, core: "Core", key: bytes, device: int) -> None:
        self._core = core
        self._key = key
        self._device = device

    def read(self, receipt: bytes) -> CoinReceipt:
        """Return the content of a receipt. Raises ValueError with the reason if it is invalid."""
        if not _fits(receipt):
            raise ValueError("peel: length: a receipt with coin fields cannot have %d bytes" % len(receipt))
        check_receipt(self._core, self._key, self._device, VERSION, receipt)
        return CoinReceipt(receipt)


def read_runs(data: bytes, at: int, count: int) -> "list[Run]":
    """Return the runs of a challenge: the first number, then for each run a distance and a length."""
    runs = []
    number = _integer(data, at, 6)
    at += 6
    for _ in range(count):
        first = number + _integer(data, at, 2)
        number = first + _integer(data, at + 2, 2)
        runs.append((first, number - 1))
        at += 4
    return runs


def _fits(receipt: bytes) -> bool:
    if len(receipt) < _SHORTEST:
        return False
    settled, asked = receipt[39], receipt[40]
    if settled > RUNS_MAX or asked > CHALLENGE_RUNS_MAX:
        return False
    return len(receipt) == _SHORTEST + 12 * settled + (_CHALLENGE_HEAD + 4 * asked if asked else 0)


def _integer(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")
