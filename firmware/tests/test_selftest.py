# SPDX-License-Identifier: MIT
"""The self-test passes on a sound device and names what is wrong with a broken one."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from host_board import HostBoard
from peel_device import selftest
from power_cut import FullFiles, MemoryFiles

_FIELDS = ("profile", "device", "width", "seed", "seal_key", "index_key")
VECTORS = Path(__file__).parents[2] / "spec" / "vectors" / "report.json"


def test_a_sound_device_passes(core: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    files = MemoryFiles()
    assert selftest.run(core, HostBoard(), files, "peel")
    assert capsys.readouterr().out.splitlines()[-1] == "peel: selftest passed"
    assert files.kept == {}


def test_the_known_answers_are_those_of_the_vectors() -> None:
    cases = json.loads(VECTORS.read_text())["cases"]
    for known in selftest.REPORTS:
        blocks = [list(block) for block in known[0]]
        case = next(case for case in cases if case["encoder"]["blocks"] == blocks)
        encoder, report = case["encoder"], case["reports"][0]
        parts = [encoder[key] for key in _FIELDS]
        assert list(known[1:]) == [*parts, case["entropy"], report["readings"], report["frame"]]
        assert report["number"] == 1
    assert {known[0][0][0] for known in selftest.REPORTS} == {1, 2, 3}
    assert any(len(known[0]) > 1 for known in selftest.REPORTS)


def test_the_known_coin_is_one_of_the_vectors() -> None:
    name, seed, index, opening, root = selftest.COIN
    cases = json.loads(VECTORS.with_name("coin_opening.json").read_text())["cases"]
    case = next(case for case in cases if case["seed"] == seed)
    assert [index, opening] in case["openings"]
    assert (root, name[16:28]) == (case["root"], case["number"].to_bytes(6, "little").hex())


def broken(core: ModuleType, **changes: Any) -> Any:
    return SimpleNamespace(**{name: getattr(core, name) for name in dir(core) if not name.startswith("_")} | changes)


def test_a_wrong_frame_is_found(core: ModuleType) -> None:
    def encode(out: bytearray, *rest: Any) -> int:
        size = int(core.encode(out, *rest))
        out[size - 1] ^= 1
        return size

    assert "form 1" in selftest.check_core(broken(core, encode=encode))


def test_a_wrong_coin_is_found(core: ModuleType) -> None:
    assert "verified coin" in selftest.check_core(broken(core, coin_open=lambda *rest: (b"", b"")))


def test_missing_entropy_is_found(core: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    board = HostBoard()
    board.sources = list  # type: ignore[method-assign]  # of this board alone
    assert not selftest.run(core, board, MemoryFiles(), "peel")
    assert "selftest FAILED" in capsys.readouterr().out


def test_a_full_flash_is_found() -> None:
    assert "cannot be written" in selftest.check_flash(FullFiles(5), "peel")
