# SPDX-License-Identifier: MIT
"""`scripts/figures` repeats single benchmarks; a failure keeps the old figures, a timeout leaves no process running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from project_files import ROOT

QUICKEST = "privacy_1_21600"
OLD: dict[str, Any] = json.loads((ROOT / "docs" / "figures.json").read_text(encoding="utf-8"))

STOPPED = """
import subprocess, sys, tempfile
from docs.generator.figures import run
from docs.generator.figures.record import Benchmark

tempfile.tempdir, run._LAST_WORDS, patience = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])

def interrupt(passed):
    running = subprocess.run(["pgrep", "-x", "-a", "mosquitto"], capture_output=True, text=True).stdout
    if tempfile.tempdir in running:
        raise KeyboardInterrupt

run.adopt_orphans()
try:
    run.take(Benchmark("ingest", ("ingest", "--messages", "1000000"), seconds=1, patience=patience), interrupt)
except (KeyboardInterrupt, run.FailedError) as error:
    print(type(error).__name__, error)
"""
"""A benchmark with a broker in its own session, stopped once the broker runs or after a timeout."""


def figures(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "docs.generator.figures.run", *words],
        cwd=ROOT, env=os.environ | (env or {}), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_one_is_taken_again_and_the_others_stay(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    out.write_text(json.dumps(OLD))
    done = figures("--only", QUICKEST, "--out", str(out))
    assert done.returncode == 0, done.stderr
    new = json.loads(out.read_text())
    assert list(new) == list(OLD)
    assert new[QUICKEST]["date"] > OLD[QUICKEST]["date"]
    assert new[QUICKEST]["figures"].keys() == OLD[QUICKEST]["figures"].keys()
    assert {name: run for name, run in new.items() if name != QUICKEST} == {
        name: run for name, run in OLD.items() if name != QUICKEST
    }


def test_one_that_fails_leaves_what_was_there_and_the_next_is_taken(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    out.write_text(json.dumps(OLD))
    nothing_but_git = tmp_path / "bin"
    nothing_but_git.mkdir()
    (nothing_but_git / "git").symlink_to("/usr/bin/git")
    done = figures("--only", "core", "--only", QUICKEST, "--out", str(out), env={"PATH": str(nothing_but_git)})
    assert done.returncode == 1
    assert "core: exit code " in done.stderr
    assert "arm-none-eabi-gcc" in done.stderr
    assert f"the figures of {OLD['core']['date']} stay" in done.stderr
    assert "1 of 2 taken" in done.stderr
    new = json.loads(out.read_text())
    assert new["core"] == OLD["core"]
    assert new[QUICKEST]["date"] > OLD[QUICKEST]["date"]


@pytest.mark.parametrize(
    ("last_words", "patience", "said"),
    [(60, 300, "KeyboardInterrupt "), (0, 300, "KeyboardInterrupt "), (60, 0.1, "FailedError given up after 0.1 s")],
    ids=["stops in order", "is killed", "takes too long"],
)
def test_one_that_is_stopped_leaves_nothing(last_words: float, patience: float, said: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", STOPPED, str(tmp_path), str(last_words), str(patience)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout == f"{said}\n", done.stderr
    left = subprocess.run(["pgrep", "-f", "-a", str(tmp_path)], capture_output=True, text=True, check=False)
    assert left.stdout == ""
    assert not list(tmp_path.iterdir())
