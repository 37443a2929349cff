# SPDX-License-Identifier: MIT
"""No entropy, no report; no seed twice."""

from __future__ import annotations

import os
from types import ModuleType

import pytest

from host_board import HostBoard
from peel_device.entropy import Entropy, jitter
from peel_device.errors import EntropyError
from peel_device.interfaces import Source
from power_cut import MemoryFiles, WitnessFiles


class PoorBoard(HostBoard):
    """A board with the given sources only."""

    def __init__(self, *sources: Source) -> None:
        super().__init__()
        self._sources = list(sources)

    def sources(self) -> list[Source]:
        return self._sources


GOOD: Source = ("good", os.urandom, 64, 128)
STUCK: Source = ("stuck", lambda count: bytes(count), 64, 256)
REPEATING: Source = ("repeating", lambda count: bytes(range(8)) * (count // 8), 64, 256)
WEAK: Source = ("weak", os.urandom, 64, 16)


def start(core: ModuleType, board: HostBoard, files: MemoryFiles, seed: bytes = b"", number: int = 1) -> Entropy:
    entropy = Entropy(core, board, files, "seed")
    entropy.start(seed, number)
    return entropy


def test_good_sources_are_enough(core: ModuleType) -> None:
    entropy = start(core, PoorBoard(GOOD), MemoryFiles())
    assert entropy.bits == 128
    assert len(entropy.random(16)) == 16


@pytest.mark.parametrize("sources", [(), (STUCK,), (REPEATING, WEAK), (WEAK, WEAK)])
def test_without_enough_the_device_refuses(core: ModuleType, sources: tuple[Source, ...]) -> None:
    files = MemoryFiles()
    with pytest.raises(EntropyError, match="bits of 128"):
        start(core, PoorBoard(*sources), files)
    assert files.kept == {}


def test_a_bad_source_is_named_and_left_out(core: ModuleType) -> None:
    entropy = start(core, PoorBoard(STUCK, GOOD, REPEATING), MemoryFiles())
    assert entropy.refused == ["stuck", "repeating"]
    assert entropy.bits == 128


def test_the_bundle_seed_is_enough_once_and_then_the_stored_one(core: ModuleType) -> None:
    files = MemoryFiles()
    first = start(core, PoorBoard(), files, os.urandom(32)).random(16)
    second = start(core, PoorBoard(), files).random(16)
    assert first != second


def test_the_stored_seed_changes_before_first_use(core: ModuleType) -> None:
    """After each start the seed on flash is a new one, and a cut during its replacement leaves a whole one."""
    files = WitnessFiles()
    seen: set[bytes] = set()
    seed = os.urandom(32)

    def next_boot_starts(state: MemoryFiles) -> None:
        start(core, PoorBoard(), state, seed)

    files.witness = next_boot_starts
    for _ in range(4):
        start(core, PoorBoard(), files, seed)
        seen.add(max(files.kept.values(), key=lambda record: record[3]))
    assert len(seen) == 4


def test_the_number_separates_streams_even_when_all_else_is_equal(core: ModuleType) -> None:
    seed = os.urandom(32)
    streams = {start(core, PoorBoard(), MemoryFiles(), seed, number).random(16) for number in (1, 2, 3)}
    assert len(streams) == 3


def test_a_bad_seed_is_refused(core: ModuleType) -> None:
    with pytest.raises(EntropyError, match="refused: stored seed"):
        start(core, PoorBoard(), MemoryFiles(), bytes(32))


def test_a_damaged_stored_seed_is_no_seed(core: ModuleType) -> None:
    files = MemoryFiles({"seed.0": b"?", "seed.1": b"?"})
    with pytest.raises(EntropyError):
        start(core, PoorBoard(WEAK), files)
    assert start(core, PoorBoard(GOOD), files).bits == 128


def test_a_clock_that_stands_still_gives_refused_bytes(core: ModuleType) -> None:
    with pytest.raises(ValueError, match="-14"):
        core.drbg_seed(core.drbg(), jitter(lambda: 0, 64))
