# SPDX-License-Identifier: MIT
"""Entropy: too little stops the reports, and no seed is used twice."""

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


def test_the_bundle_seed_counts_for_nothing(core: ModuleType) -> None:
    """The gateway's host made it. A device that ran on it alone would toss coins that the gateway can predict."""
    for board in (PoorBoard(), PoorBoard(STUCK, WEAK)):
        with pytest.raises(EntropyError, match="bits of 128"):
            start(core, board, MemoryFiles(), os.urandom(32))
    assert start(core, PoorBoard(GOOD), MemoryFiles(), os.urandom(32)).bits == 128


def test_the_bundle_seed_is_mixed_in(core: ModuleType) -> None:
    """The sources give the same bytes in each run; only the seed differs."""
    same: Source = ("same", lambda count: bytes(range(count)), 64, 128)
    first, second, again = (
        start(core, PoorBoard(same), MemoryFiles(), seed).random(16)
        for seed in (bytes(range(1, 33)), bytes(range(2, 34)), bytes(range(1, 33)))
    )
    assert first == again != second


def test_a_stored_seed_is_the_device_s_own(core: ModuleType) -> None:
    files = MemoryFiles()
    first = start(core, PoorBoard(GOOD), files).random(16)
    entropy = start(core, PoorBoard(), files)
    assert entropy.bits == 128
    assert entropy.random(16) != first


def test_the_seed_that_started_a_run_is_gone_before_the_first_coin(core: ModuleType) -> None:
    files = MemoryFiles()
    start(core, PoorBoard(GOOD), files)
    for _ in range(4):
        before = set(files.kept.values())
        start(core, PoorBoard(), files)
        assert len(files.kept) == 2
        assert before.isdisjoint(files.kept.values())


def test_a_cut_while_the_seed_is_replaced_leaves_a_whole_one(core: ModuleType) -> None:
    files = WitnessFiles()
    start(core, PoorBoard(GOOD), files)

    def next_boot_starts(state: MemoryFiles) -> None:
        start(core, PoorBoard(), state)

    files.witness = next_boot_starts
    for _ in range(4):
        start(core, PoorBoard(), files)
    assert files.cuts > 1000


def test_the_number_separates_streams_even_when_all_else_is_equal(core: ModuleType) -> None:
    same: Source = ("same", lambda count: bytes(range(count)), 64, 128)
    streams = {start(core, PoorBoard(same), MemoryFiles(), b"", number).random(16) for number in (1, 2, 3)}
    assert len(streams) == 3


def test_a_bad_seed_is_refused(core: ModuleType) -> None:
    with pytest.raises(EntropyError, match="refused: bundle seed"):
        start(core, PoorBoard(), MemoryFiles(), bytes(32))


def test_a_source_that_gives_nothing_is_refused_and_named(core: ModuleType) -> None:
    with pytest.raises(EntropyError, match="refused: silent"):
        start(core, PoorBoard(("silent", lambda count: b"", 64, 256)), MemoryFiles())


def test_a_damaged_stored_seed_is_no_seed(core: ModuleType) -> None:
    files = MemoryFiles({"seed.0": b"?", "seed.1": b"?"})
    with pytest.raises(EntropyError):
        start(core, PoorBoard(WEAK), files)
    assert start(core, PoorBoard(GOOD), files).bits == 128


def test_a_clock_that_stands_still_gives_refused_bytes(core: ModuleType) -> None:
    with pytest.raises(ValueError, match="-13"):
        core.drbg_seed(core.drbg(), jitter(lambda: 0, 64))
