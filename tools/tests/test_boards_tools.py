# SPDX-License-Identifier: MIT
"""Missing and failing tools are reported with what to do; sources are checked before they are used."""

from __future__ import annotations

from pathlib import Path

import pytest

from peel_tools.boards.build_tools import DEBIAN_PACKAGES, BuildError, require, run
from peel_tools.boards.cache import REPOSITORY
from peel_tools.boards.sources import MICROPYTHON_VERSION, micropython_sources


def test_a_missing_tool_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BuildError, match=r"not installed: llc-22, make. On Debian: apt-get install llvm-22 make"):
        require("llc-22", "make")


def test_every_package_is_on_the_list_of_the_set_up_script() -> None:
    listed = {name for file in (REPOSITORY / "scripts" / "packages").glob("*.txt") for name in file.read_text().split()}
    assert set(DEBIAN_PACKAGES.values()) <= listed


def test_a_failing_command_shows_its_last_lines() -> None:
    with pytest.raises(BuildError, match=r"(?s)a test failed with status 3.*the reason"):
        run(["sh", "-c", "echo the reason >&2; exit 3"], what="a test")


def _tree(folder: Path, micro: int) -> Path:
    (folder / "py").mkdir(parents=True)
    lines = [
        f"#define MICROPY_VERSION_{part} {value}" for part, value in (("MAJOR", 1), ("MINOR", 25), ("MICRO", micro))
    ]
    (folder / "py" / "mpconfig.h").write_text("\n".join(lines))
    return folder


def test_a_checkout_of_the_users_is_taken_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MICROPYTHON_DIR", str(_tree(tmp_path, 0)))
    sources = micropython_sources()
    assert sources.path == tmp_path
    (tmp_path / "py" / "mpconfig.h").touch()
    assert micropython_sources().identity != sources.identity


@pytest.mark.parametrize("micro", [None, 1])
def test_another_tree_is_refused(micro: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if micro is not None:
        _tree(tmp_path, micro)
    monkeypatch.setenv("MICROPYTHON_DIR", str(tmp_path))
    wrong = "is MicroPython 1.25.1" if micro else "is not a MicroPython source tree"
    with pytest.raises(
        BuildError, match=f"{wrong}. Set MICROPYTHON_DIR to a checkout of MicroPython v{MICROPYTHON_VERSION}"
    ):
        micropython_sources()


def test_without_apt_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MICROPYTHON_DIR", raising=False)
    monkeypatch.setenv("PEEL_CACHE", str(tmp_path))
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "dpkg-source").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(BuildError, match=r"no Debian apt set-up. Set MICROPYTHON_DIR"):
        micropython_sources()
