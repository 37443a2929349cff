# SPDX-License-Identifier: MIT
"""The installed packages import nothing that only developers have."""

from __future__ import annotations

import subprocess
import sys

from project_files import ROOT, name_of, packages

SHIPPED = [
    path
    for folder in ("bindings/host", "gateway", "tools", "tools/research")
    for path in (ROOT / folder).glob("peel_*/**/*.py")
]
DEVELOPERS = {"peel_hil", "hil_tests", "pytest", "hypothesis", "reference"}

# `peel bench device` where only the published package is installed.
AT_A_USERS = """
import sys
class NotInstalled:
    def find_spec(name, *_):
        if name == "peel_hil":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NotInstalled)
from peel_tools.cli import main
main(["bench", "device"])
"""


def test_there_is_something_to_look_at() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in SHIPPED} == {"bindings", "gateway", "tools"}


def test_a_shipped_module_knows_nothing_of_the_tests() -> None:
    for path in SHIPPED:
        assert not DEVELOPERS & packages(path), name_of(path)
        assert "hil_tests" not in path.read_text(encoding="utf-8"), name_of(path)


def test_the_product_does_not_import_the_research_tools() -> None:
    for path in SHIPPED:
        assert "peel_research" in path.parts or "peel_research" not in packages(path), name_of(path)


def test_nobody_reads_the_gateways_database_behind_its_stores_back() -> None:
    using = {path.parent.relative_to(ROOT).as_posix(): path.name for path in SHIPPED if "sqlite3" in packages(path)}
    using |= {path.as_posix(): path.name for path in (ROOT / "hil_tests").rglob("*.py") if "sqlite3" in packages(path)}
    research = "tools/research/peel_research"
    assert set(using) == {
        "gateway/peel_gateway/storage/sqlite", "tools/peel_tools/simulation", f"{research}/soak", f"{research}/bench",
    }  # fmt: skip
    assert using[f"{research}/bench"] == "engine.py"  # a bare table of its own, to compare with
    truth = {path.name for path in (ROOT / "tools/peel_tools/simulation").glob("*.py") if "sqlite3" in packages(path)}
    assert truth == {"truth.py", "referee.py"}  # the truth is a file of the simulation's own
    soak = {path.name for path in (ROOT / research / "soak").glob("*.py") if "sqlite3" in packages(path)}
    assert soak == {"verdict.py", "stores.py"}  # the same truth; and a lock, which reads nothing


def test_only_one_command_asks_for_the_developers_package_and_by_name() -> None:
    naming = {path.relative_to(ROOT / "tools").as_posix() for path in SHIPPED if "peel_hil" in path.read_text()}
    assert naming == {"research/peel_research/commands/bench.py"}


def test_without_the_developers_package_the_command_says_what_it_needs() -> None:
    done = subprocess.run([sys.executable, "-c", AT_A_USERS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 7
    assert "is not part of the installed package. Clone the project's repository" in done.stderr
    assert "scripts/setup base test firmware" in done.stderr
