# SPDX-License-Identifier: MIT
"""Build products are made once per content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from peel_tools.boards.cache import cache_root, cached, digest, workspace


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PEEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_variable_names_the_cache(private_cache: Path) -> None:
    assert cache_root() == private_cache


def test_without_the_variable_it_is_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PEEL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_root() == Path("/elsewhere/peel")


def test_a_product_is_built_once_per_key() -> None:
    built: list[Path] = []
    first = cached("thing", "a", built.append)
    assert cached("thing", "a", built.append) == first
    assert cached("thing", "b", built.append) != first
    assert len(built) == 2


def test_a_failed_build_does_not_count() -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cached("thing", "a", fail)
    folder = cached("thing", "a", lambda folder: (folder / "whole").touch())
    assert (folder / "whole").exists()
    assert not (folder / "half").exists()


def test_a_digest_depends_on_content_and_boundaries(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    before = digest([file])
    os.utime(file, (1, 1))
    assert digest([file]) == before
    file.write_text("two")
    assert digest([file]) != before
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["a", "b"]) != digest(["b", "a"])


def test_a_workspace_holds_the_inputs_and_nothing_else(tmp_path: Path) -> None:
    source = tmp_path / "source.c"
    source.write_text("int x;")
    with workspace("board", "id", {"a/source.c": source, "manifest.py": "one"}) as work:
        kept = (work / "inputs/a/source.c").stat().st_mtime_ns
    with workspace("board", "id", {"a/source.c": source, "other.py": "two"}) as work:
        assert (work / "inputs/a/source.c").stat().st_mtime_ns == kept
        assert sorted(path.name for path in (work / "inputs").rglob("*") if path.is_file()) == ["other.py", "source.c"]


def test_old_products_are_removed_and_used_ones_kept(private_cache: Path) -> None:
    keys = [digest([str(number)]) for number in range(20)]
    other = cached("thing-else", keys[0], lambda folder: None)
    for number, key in enumerate(keys):
        stamp = cached("thing", key, lambda folder: None) / ".complete"
        os.utime(stamp, (number, number))
    cached("thing", keys[8], lambda folder: None)  # used again
    for number in range(20, 23):
        cached("thing", digest([str(number)]), lambda folder: None)
    left = {path.name for path in private_cache.glob("thing-*") if (path / ".complete").exists()}
    assert other.name in left
    assert f"thing-{keys[8]}" in left
    assert f"thing-{keys[0]}" not in left
    assert len(left) == 13
