# SPDX-License-Identifier: MIT
"""The versions of software and wire format in peel.h, and all their copies."""

from __future__ import annotations

import ast
import json
import re
from importlib.metadata import version
from pathlib import Path

import peel_core
from peel_core._core import lib

ROOT = Path(__file__).resolve().parents[2]
RELEASE = version("peel-telemetry")


def constant(path: str, name: str) -> object:
    """A constant of a file that is written for a device."""
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{path} has no {name}")


def test_the_package_and_the_core_in_it_have_the_headers_version() -> None:
    assert f'#define PEEL_CORE_VERSION "{RELEASE}"\n' in (ROOT / "c_core/include/peel.h").read_text()
    assert peel_core.CORE_VERSION == RELEASE


def test_files_for_devices_repeat_it() -> None:
    assert constant("firmware/peel_device/__init__.py", "VERSION") == RELEASE
    assert constant("bindings/micropython/peelcore_py.py", "VERSION") == RELEASE
    assert json.loads((ROOT / "bindings/micropython/package.json").read_text())["version"] == RELEASE


def test_the_changelog_begins_with_it() -> None:
    assert re.findall(r"^## ([\w.]+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[0] == RELEASE


def test_the_wire_version_is_that_of_the_specification() -> None:
    wire = str(lib.PEEL_WIRE_VERSION)
    specification = (ROOT / "spec/SPEC.md").read_text(encoding="utf-8")
    assert specification.startswith(f"# Peel wire specification, version {wire}\n")
    assert re.findall(r"wire format has\s+its own version \((\d+)\)", (ROOT / "CHANGELOG.md").read_text()) == [wire]
