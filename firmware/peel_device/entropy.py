# SPDX-License-Identifier: MIT
"""Entropy: every source of the board, conditioned by the core's generator. Without enough of it, no report.

Each source is fed on its own, so that the core's health check (SPEC section 4) judges it on its own: one stuck source
is left out and named, and does not hide behind the others. The sources that pass must together be trusted for 128
bits.

A stored seed carries entropy from one boot to the next: it comes from a generator that had its 128 bits. Both copies on
flash are replaced before the generator's first use, so no seed ever starts two runs, and the one that started this run
cannot be read from the device any more.

What others may know counts for nothing, and is mixed in all the same: the seed that came with the bundle (the gateway's
host made it, and the device is to be safe from the gateway), the board's id and the next report number. With them two
boards, or two boots, never share a stream even if everything else fails.
"""

from peel_device.errors import EntropyError, StorageError
from peel_device.slots import Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from peel_device.interfaces import Board, Core, Files

SEED_BYTES = 32
NEEDED_BITS = 128
_CONTEXT_LABEL = b"peel/1 device context"


class Entropy:
    """The device's random generator, from the sources to the seed on flash."""

    def __init__(self, core: "Core", board: "Board", files: "Files", path: str) -> None:
        self._core = core
        self._board = board
        self._seed = Slots(files, path, SEED_BYTES)
        self.drbg = core.drbg()
        self.bits = 0
        self.refused: list[str] = []

    def start(self, bundle_seed: bytes, next_number: int) -> None:
        """Seed the generator, or raise EntropyError."""
        self.bits, self.refused = 0, []  # it may be called again after a fault
        stored = self._stored_seed()
        if bundle_seed:
            self._feed("bundle seed", bundle_seed, 0)
        if stored:
            self._feed("stored seed", stored, NEEDED_BITS)
        for name, collect, count, bits in self._board.sources():
            self._feed(name, collect(count), bits)
        if self.bits < NEEDED_BITS:
            refused = ", ".join(self.refused) or "none"
            raise EntropyError(
                "the device's own sources give %d bits of %d (refused: %s): check the board"
                % (self.bits, NEEDED_BITS, refused)
            )
        context = self._board.unique_id() + next_number.to_bytes(8, "little")
        self._core.drbg_seed(self.drbg, self._core.hash(_CONTEXT_LABEL, context, SEED_BYTES))
        for _ in range(2):  # each replaces the older copy
            self._seed.write(self.random(SEED_BYTES))

    def random(self, count: int) -> bytes:
        """Random bytes for anything but keys: back-off, seeds."""
        return self._core.drbg_bytes(self.drbg, count)

    def _stored_seed(self) -> bytes:
        try:
            return self._seed.read() or b""
        except StorageError:
            return b""  # a damaged seed is no seed; the other sources must do

    def _feed(self, name: str, data: bytes, bits: int) -> None:
        try:
            self._core.drbg_seed(self.drbg, data)
        except ValueError:
            self.refused.append(name)
        else:
            self.bits += bits


def jitter(ticks: "Callable[[], Any]", count: int) -> bytes:
    """Collect bytes from the low bits of how long a small loop takes: weak, but every board has it.

    Each byte starts afresh, so a counter that stands still gives equal bytes, which the health check refuses.
    """
    out = bytearray(count)
    for position in range(count):
        value = 0
        for _ in range(16):
            start = ticks()
            for _ in range(5 + (value & 7)):
                pass
            value = (value * 5) ^ ((ticks() - start) & 0xFF)
        out[position] = (value ^ value >> 8) & 0xFF
    return bytes(out)
