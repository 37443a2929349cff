# SPDX-License-Identifier: MIT
"""The release script refuses what must not be released. It runs in a clone of this checkout."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from project_files import ROOT


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    return subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def change(folder: Path, name: str, edit: Callable[[str], str]) -> None:
    file = folder / name
    before = file.read_text(encoding="utf-8")
    file.write_text(edit(before), encoding="utf-8")
    assert file.read_text(encoding="utf-8") != before


def dated(changelog: str) -> str:
    return re.sub(r"^## ([\d.]+) \(.*\)$", r"## \1 (2030-01-31)", changelog, count=1, flags=re.M)


def version_of(folder: Path) -> str:
    (version,) = re.findall(r'CORE_VERSION "(.*)"', (folder / "c_core" / "include" / "peel.h").read_text())
    return str(version)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a separate repository with this checkout's files, ready to be released."""
    folder = tmp_path / "peel"
    git(ROOT, "clone", "-q", str(ROOT), str(folder))
    for name in git(ROOT, "diff", "--name-only", "HEAD").splitlines():  # as they are now, committed or not
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
        else:
            (folder / name).unlink()
    change(folder, "CHANGELOG.md", dated)
    frozen = folder / "spec" / "compat" / version_of(folder)
    frozen.mkdir(parents=True, exist_ok=True)
    (frozen / "answers.json").touch()
    git(folder, "add", "--all")
    git(folder, "commit", "-qm", "all: Release.")
    return folder


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    script = [str(folder / "scripts" / "release"), "--check"]
    return subprocess.run(script, capture_output=True, text=True, timeout=120, check=False)


def refusal(folder: Path) -> str:
    done = check(folder)
    assert done.returncode == 1, done.stdout
    return done.stderr


def test_a_commit_in_order_passes_and_stays_as_it_is(clone: Path) -> None:
    done = check(clone)
    assert done.returncode == 0, done.stderr
    assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "tag", "--list") == git(ROOT, "tag", "--list")


def test_changes_that_are_not_committed_are_refused(clone: Path) -> None:
    (clone / "note.txt").write_text("not committed")
    assert "the tree is not clean" in refusal(clone)


def test_a_changelog_without_a_date_is_refused(clone: Path) -> None:
    change(clone, "CHANGELOG.md", lambda text: text.replace("(2030-01-31)", "(unreleased)"))
    git(clone, "commit", "-qam", "docs: Go on.")
    assert "(unreleased)'; a release needs" in refusal(clone)


def test_a_version_that_the_changelog_does_not_begin_with_is_refused(clone: Path) -> None:
    change(clone, "c_core/include/peel.h", lambda text: text.replace('VERSION "0.', 'VERSION "99.'))
    git(clone, "commit", "-qam", "all: Raise the version.")
    assert "a release needs '## 99." in refusal(clone)


def test_a_version_that_was_released_before_is_refused(clone: Path) -> None:
    version = version_of(clone)
    git(clone, "tag", f"v{version}")
    assert f"the tag v{version} exists already" in refusal(clone)


def test_a_version_that_was_not_frozen_is_refused(clone: Path) -> None:
    git(clone, "rm", "-rq", f"spec/compat/{version_of(clone)}")
    git(clone, "commit", "-qm", "spec: Forget the frozen folder.")
    assert "run .venv/bin/python scripts/freeze.py" in refusal(clone)


def test_vectors_that_the_reference_does_not_make_are_refused(clone: Path) -> None:
    change(clone, "spec/vectors/odds.json", lambda text: text.replace("0", "1", 1))
    git(clone, "commit", "-qam", "spec: Spoil a vector.")
    assert "spec/vectors is not what spec/reference.py makes" in refusal(clone)
