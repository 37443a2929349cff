# SPDX-License-Identifier: MIT
"""The workflows run the project's scripts, on every Python that the package supports."""

from __future__ import annotations

import re
import tomllib

from project_files import ROOT

WORKFLOWS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def test_they_call_the_scripts() -> None:
    _, *called = re.findall(r"- run: (scripts/.*)", WORKFLOWS["test"])
    assert called == ["scripts/test"], "which begins with scripts/check"
    assert "- run: scripts/package dist\n" in WORKFLOWS["package"]


def test_they_cover_the_versions_that_are_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=")
    for name in ("test", "package"):
        (versions,) = re.findall(r"^ +python: \[(.*)\]$", WORKFLOWS[name], flags=re.M)
        assert versions.replace('"', "").split(", ")[0] == oldest
        assert '"3.14"' in versions
