# SPDX-License-Identifier: MIT
"""Entropy: all sources of the board, conditioned by the core's generator. Without enough entropy the device does not report.

Each source is fed separately, so that the core's health check (SPEC section 4) judges it separately. A stuck source
is left out and named. The sources that pass must together be trusted for 128 bits.

A stored seed carries entropy from one boot to the next: it comes from a generator that had its 128 bits. Both copies
on flash are replaced before the generator's first use. So no seed starts two runs, and the seed that started this run
can no longer be read from the file system.

Three inputs count for 0 bits because others may know them, and are mixed in all the same: the bundle's seed (made on
the gateway's host, against which the device must be safe), the board's id and the next report number. They give two
boards, or two boots, different streams even if all other sources fail.
"""

from peel_device.errors import EntropyError, StorageError
from peel_device.storage import Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from peel_device.interfaces import Board, Core, Files

SEED_BYTES = 32
NEEDED_BITS = 128
_CONTEXT_LABEL = b"peel/1 device context"


class Entropy:
    """The device's random generator: gathers the sources and keeps the seed on flash."""

    def __init__(self, core: "Core", board: "Board", files: "Files", path: str) -> None:
        self._core = core
        self._board = board
        self._seed = Slots(files, path, SEED_BYTES)
        self.drbg = core.drbg()
        self.bits = 0
        self.refused: list[str] = []

    def start(self, bundle_seed: bytes, next_number: int) -> None:
        """Seed the generator, or raise EntropyError if there is too little entropy."""
        self.bits, self.refused = 0, []  # `start` may be called again after a fault
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
        for _ in range(2):  # each write replaces the older copy
            self._seed.write(self.random(SEED_BYTES))

    def random(self, count: int) -> bytes:
        """Return random bytes for anything but keys: back-off, seeds."""
        return self._core.drbg_bytes(self.drbg, count)

    def _stored_seed(self) -> bytes:
        try:
            return self._seed.read() or b""
        except StorageError:
            return b""  # without a usable stored seed the other sources must suffice

    def _feed(self, name: str, data: bytes, bits: int) -> None:
        try:
            self._core.drbg_seed(self.drbg, data)
        except ValueError:
            self.refused.append(name)
        else:
            self.bits += bits


def jitter(ticks: "Callable[[], Any]", count: int) -> bytes:
    """Collect bytes from the low bits of a small loop's duration: weak, but every board has it.

    Each byte starts anew, so a stopped counter gives equal bytes, which the health check refuses.
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
