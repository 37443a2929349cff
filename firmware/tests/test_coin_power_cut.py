# SPDX-License-Identifier: MIT
"""Verified coins with the power cut at every write: the device breaks no rule, goes on, and answers everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
from coin_gateway import Gateway
from test_coins import FOLDER, World, secrets

from power_cut import MemoryFiles


class ForkingFiles(MemoryFiles):
    """Calls `witness` with the state that a power cut before, during or after each write or removal leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.witness: Callable[[MemoryFiles], None] = lambda files: None

    def write(self, path: str, data: bytes) -> None:
        for torn in _torn(self.kept.get(path), data):
            self.witness(MemoryFiles(self.kept | {path: torn}))
        super().write(path, data)
        self.witness(MemoryFiles(self.kept))

    def remove(self, path: str) -> None:
        known = path in self.kept
        super().remove(path)
        if known:
            self.witness(MemoryFiles(self.kept))


def _torn(old: bytes | None, new: bytes) -> Iterator[bytes]:
    """Yield a few of the contents that a cut write leaves; the tests of the ledger and the outbox have all of them."""
    half = len(new) // 2
    yield b""
    yield new[:half] + (old or b"")[half:]
    yield new[:-1] + b"\xff"


def finish(world: World) -> None:
    """Run for some time, and then without reports until the gateway has opened all that it has stored."""
    world.run(15, bucket=5)
    world.app._starved = False
    world.app._due = 1 << 60
    for _ in range(20):
        world.gateway.end_bucket()
        world.app.step()


def check(core: ModuleType, files: MemoryFiles, gateway: Gateway) -> None:
    """Boot from a flash, with the gateway as it was. The gateway asserts the rules."""
    finish(World(core, files, gateway))
    assert not gateway.refused
    assert gateway.asked is None, "the device stalls"
    assert not gateway.unchallenged
    assert gateway.counted.keys() >= {n for n in gateway.reports if not gateway.row_of(n).void}  # type: ignore[union-attr]
    for first in secrets(files):
        row = gateway.batches.get(first)
        if row is not None:
            left = [number for number in row.numbers(first, revealed=False) if number not in gateway.counted]
            assert left, "the secret of a closed batch"
            assert not row.void, "the secret of a void batch"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_a_cut_at_every_write_of_a_life(core: ModuleType, part: int) -> None:
    """A life of several batches, with a new era. Each part takes every fourth cut."""
    files = ForkingFiles()
    world = World(core, files, outbox=20)
    cuts = 0

    def witness(state: MemoryFiles) -> None:
        nonlocal cuts
        cuts += 1
        if cuts % 4 == part:
            check(core, state, world.gateway.fork())

    files.witness = witness
    world.run(30, bucket=5)
    world.gateway.new_era()
    world.run(30, bucket=5)
    files.witness = lambda state: None
    assert cuts > 500
    assert [path for path in files.kept if path.startswith(FOLDER)]
    finish(world)
    assert len(world.gateway.counted) > 60
