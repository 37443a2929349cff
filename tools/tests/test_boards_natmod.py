# SPDX-License-Identifier: MIT
"""Native modules: the folders that mip installs from. Their size, and the boards that load them, are in hil_tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from peel_tools.boards.natmod import publish
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
