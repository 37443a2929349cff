# SPDX-License-Identifier: MIT
"""The bill of materials has everything installed with the package, and refuses licences that are not on the list."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SBOM = ROOT / "scripts" / "sbom.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", SBOM)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def printed() -> str:
    return subprocess.run([sys.executable, str(SBOM)], check=True, capture_output=True, text=True).stdout


def test_it_has_what_the_project_requires_and_what_that_requires() -> None:
    bill = json.loads(printed())
    names = {part["name"] for part in bill["components"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {Requirement(line).name for line in project["dependencies"]} <= names
    assert "pycparser" in names, "which cffi requires"
    assert "pytest" not in names, "which no installation has"
    assert all(part["version"] and part["licenses"][0]["expression"] for part in bill["components"])


def test_it_is_the_same_twice() -> None:
    assert printed() == printed()


@pytest.mark.parametrize(
    ("expression", "free"),
    [
        ("MIT", True),
        ("EPL-2.0 OR BSD-3-Clause", True),
        ("Apache-2.0 AND BSD-2-Clause", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only", False),
        ("", False),
    ],
)
def test_licences(expression: str, free: bool) -> None:
    assert load().is_free(expression) is free
