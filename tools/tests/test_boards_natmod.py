# SPDX-License-Identifier: MIT
"""Native modules: the folders that mip installs from. Their size, and the boards that load them, are in hil_tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from peel_tools.boards.cache import cache_root
from peel_tools.boards.natmod import build_natmod, publish
from peel_tools.boards.table import ARCHITECTURES


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_folder_that_mip_can_install_from(arch: str, tmp_path: Path) -> None:
    folder = publish(arch, tmp_path)
    package = json.loads((folder / "package.json").read_text())
    assert [name for name, _ in package["urls"]] == ["peelcore.mpy", "peel_load.py"]
    assert all((folder / url).is_file() for _, url in package["urls"])
    module = (folder / "peelcore.mpy").read_bytes()
    assert module[:2] == b"M\x06"
    assert module[2] >> 2 == next(iter(ARCHITECTURES[arch].cores))


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_same_bytes_wherever_it_is_built(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = build_natmod(arch).read_bytes()
    elsewhere = tmp_path / "another-folder"
    elsewhere.mkdir()
    for sources in cache_root().glob("sources-*"):
        (elsewhere / sources.name).symlink_to(sources)
    monkeypatch.setenv("PEEL_CACHE", str(elsewhere))
    again = build_natmod(arch)
    assert again.is_relative_to(elsewhere), "it was built again"
    assert again.read_bytes() == here
