# SPDX-License-Identifier: MIT
"""Callers who break the header's contract get a refusal or useless output, and no byte outside their buffers is touched."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize("compiler", ["gcc", "clang-22"])
def test_misuse_stays_inside(compiler: str, build: Callable[..., Path]) -> None:
    program = build(
        "misuse", compiler, "-O1", "-g", "-pthread", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"
    )
    run = subprocess.run([str(program)], capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stdout) == (0, "misuse: ok\n"), run.stderr[-3000:]
