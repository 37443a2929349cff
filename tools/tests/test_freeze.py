# SPDX-License-Identifier: MIT
"""scripts/freeze.py: what it freezes is replayed, opened, recounted, queried and written to.

A folder in spec/compat holds what a released version sent and stored. Each goes through the same tests, and so does one that is frozen
now: the script must work on the day of a release.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from peel_gateway.engine.recount import recount
from peel_gateway.storage.sqlite.schema import upgrade_file

ROOT = Path(__file__).resolve().parents[2]
FROZEN = sorted(path.name for path in (ROOT / "spec" / "compat").glob("*") if path.is_dir())


@pytest.fixture(scope="module")
def freezer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("freeze", ROOT / "scripts" / "freeze.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["freeze"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=[*FROZEN, "now"])
def frozen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of spec/compat, or one that the script makes now."""
    if request.param != "now":
        return ROOT / "spec" / "compat" / str(request.param)
    folder = tmp_path_factory.mktemp("frozen") / "now"
    subprocess.run([sys.executable, ROOT / "scripts" / "freeze.py", folder], check=True)
    return folder


@pytest.fixture
def site(frozen: Path, freezer: ModuleType, tmp_path: Path) -> Any:
    """A gateway of this version, on a copy of what was stored."""
    with tarfile.open(frozen / "gateway.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "fleet" / "master.key").chmod(0o600)
    upgrade_file(tmp_path / "peel.sqlite", timeout=10.0)
    document = json.loads((frozen / "answers.json").read_text(encoding="utf-8"))
    return freezer.Site(tmp_path, now=document["now"], boot=2)


def test_the_vectors_are_reproduced(frozen: Path, tmp_path: Path) -> None:
    with tarfile.open(frozen / "vectors.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    tests = ROOT / "bindings" / "host" / "tests" / "test_vectors_cffi.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", tests],
        cwd=ROOT,
        env=os.environ | {"PEEL_VECTORS": str(tmp_path / "vectors")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert int(done.stdout.rsplit(" passed", 1)[0].rsplit(None, 1)[-1]) > 60


def test_the_database_is_what_its_log_says(site: Any) -> None:
    assert recount(site.store, site.snapshot).differences == []


def test_the_database_answers_as_it_did(site: Any, frozen: Path, freezer: ModuleType) -> None:
    document = json.loads((frozen / "answers.json").read_text(encoding="utf-8"))
    assert freezer.answers(site.store, site.snapshot) == document["answers"]
    said = document["answers"]["totals"]
    assert said["exposed_devices"] == 1, "one by its coin; the other was pardoned"
    assert said["gaps"] > 50
    assert len(document["answers"]["audit"]) == 1


def test_the_gateway_goes_on_from_there(site: Any, frozen: Path) -> None:
    document = json.loads((frozen / "answers.json").read_text(encoding="utf-8"))
    verdicts = [site.hear([bytes.fromhex(each["frame"])]) for each in document["next"]]
    assert verdicts == [each["verdicts"] for each in document["next"]]
    assert [*verdicts[0], *verdicts[1], *verdicts[2], *verdicts[3], *verdicts[4]] == [
        "accepted", "redelivered", "reused", "withdrawn", "seal"
    ]  # fmt: skip
    assert recount(site.store, site.snapshot).differences == []


def test_what_was_frozen_is_never_overwritten(frozen: Path) -> None:
    before = {path.name: path.read_bytes() for path in frozen.iterdir()}
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "freeze.py", frozen], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "stays as it is" in done.stderr
    assert {path.name: path.read_bytes() for path in frozen.iterdir()} == before
