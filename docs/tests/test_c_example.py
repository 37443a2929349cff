# SPDX-License-Identifier: MIT
"""The C program of docs/how-it-works.md compiles as strictly as the core, runs, and reads back what it wrote."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from project_files import ROOT

STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow", "-Werror"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def test_the_program_compiles_and_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```c\n(.*?)^```", page, flags=re.M | re.S)
    (command,) = re.findall(r"^ {4}(cc .*)$", page, flags=re.M)
    (tmp_path / "example.c").write_text(program, encoding="utf-8")
    (tmp_path / "c_core").symlink_to(ROOT / "c_core")
    line = " ".join([command, *STRICT, *SANITIZERS])
    built = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr

    signs = set()
    for _ in range(60):  # every run has entropy of its own; the same sign 60 times has a chance below 2^-20
        run = subprocess.run([tmp_path / "example"], capture_output=True, text=True, timeout=10)
        assert run.returncode == 0, run.stdout + run.stderr
        frame, symbol = run.stdout.splitlines()
        assert re.fullmatch(r"frame of 38 bytes:( [0-9a-f]{2}){38}", frame)
        said = re.fullmatch(r"attribute ([012]), (plus|minus)", symbol)
        assert said, symbol
        signs.add((said[1], said[2]))
    assert {sign for _, sign in signs} == {"plus", "minus"}
    assert len({index for index, _ in signs}) == 1
