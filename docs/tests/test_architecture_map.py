# SPDX-License-Identifier: MIT
"""ARCHITECTURE.md names every folder and module, and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from project_files import ROOT, name_of, packages, tracked

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PACKAGES = {
    "peel_core": ROOT / "bindings" / "host" / "peel_core",
    "peel_gateway": ROOT / "gateway" / "peel_gateway",
    "peel_tools": ROOT / "tools" / "peel_tools",
    "peel_hil": ROOT / "hil_tests" / "peel_hil",
}
HIDDEN = {".ci", ".github", "scripts"}
#: Which of the project's own packages each one may import.
INWARD = {
    "peel_core": {"peel_core"},
    "peel_gateway": {"peel_core", "peel_gateway"},
    "peel_tools": {"peel_core", "peel_gateway", "peel_tools"},
    "peel_hil": {"peel_core", "peel_gateway", "peel_tools", "peel_hil"},
}


def section(title: str) -> str:
    return TEXT.split(f"### {title}\n")[1].split("\n##")[0]


def named(text: str) -> set[str]:
    """Return the names in backticks, folders without their slash."""
    return {name.rstrip("/") for name in re.findall(r"`([\w./]+)`", text)}


def contents(package: Path) -> set[str]:
    """Return the modules and folders directly below a package."""
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("_")}
    return modules | {path.name for path in package.iterdir() if any(path.glob("*.py")) and path.name[0] != "_"}


def test_the_map_has_every_folder() -> None:
    table = TEXT.split("## Map\n")[1].split("\n\nDependencies")[0]
    folders = {line.split("`")[1].split("/")[0] for line in table.splitlines() if line.startswith("| `")}
    assert folders == {name_of(path).split("/")[0] for path in tracked("*/*")} - HIDDEN


def test_the_way_of_a_report_names_at_most_45_files_that_exist() -> None:
    files = re.findall(
        r"^\| \d+ \| `([^`]+)`", TEXT.split("## The way of one report\n")[1].split("\n## ")[0], flags=re.M
    )
    assert 30 < len(files) <= 45
    assert len(set(files)) == len(files)
    assert [name for name in files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_described_whole(package: str) -> None:
    missing = contents(PACKAGES[package]) - named(section(package))
    assert not missing, f"ARCHITECTURE.md says nothing about {', '.join(sorted(missing))} of {package}"


def test_each_folder_of_the_gateway_has_exactly_the_modules_that_are_listed() -> None:
    listed: dict[str, set[str]] = {}
    for folder, modules in re.findall(r"^\| `?([\w/]*)`? ?\| (`.*?) \|", section("peel_gateway"), flags=re.M):
        listed.setdefault(folder.rstrip("/"), set()).update(named(modules))
    package = PACKAGES["peel_gateway"]
    folders = {path.name for path in package.iterdir() if any(path.glob("*.py")) and path.name[0] != "_"}
    for name in folders:
        assert listed[name] == contents(package / name), name
    assert listed[""] == contents(package) - folders


def test_the_tests_that_hold_the_invariants_exist() -> None:
    tests = {path.name for path in tracked("*test_*.py")}
    mentioned = set(re.findall(r"\b(test_\w+\.py)", TEXT))
    assert mentioned
    assert mentioned <= tests


@pytest.mark.parametrize("package", INWARD)
def test_dependencies_point_inward(package: str) -> None:
    for path in PACKAGES[package].rglob("*.py"):
        ours = {name for name in packages(path) if name.startswith("peel_")}
        if not ours <= INWARD[package] | {"peel_device"}:
            pytest.fail(f"{path.relative_to(ROOT)} imports {', '.join(sorted(ours - INWARD[package]))}")


def test_the_reference_is_for_the_specification_alone() -> None:
    naming = [path for path in tracked("*.py") if "reference" in path.read_text(encoding="utf-8")]
    readers = {name_of(path).split("/")[0] for path in naming if "reference" in packages(path)}
    assert readers == {"spec"}
