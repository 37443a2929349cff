# SPDX-License-Identifier: MIT
"""Builds the core's C programs for the tests: natively, with sanitizers, and for a big-endian machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[1]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow", "-Werror"]


def need(*tools: str) -> None:
    """Skip where a tool is missing; in CI that is a failure."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing and os.environ.get("CI") == "true":
        pytest.fail(f"not installed: {', '.join(missing)}")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (scripts/setup test)")


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function that compiles tests/NAME.c with the core: ``build("driver", "gcc", "-O2")``."""

    def compile_program(name: str, compiler: str, *flags: str) -> Path:
        need(compiler)
        out = tmp_path_factory.mktemp("build") / name
        sources = [str(CORE / "tests" / f"{name}.c"), *map(str, sorted((CORE / "src").glob("*.c")))]
        subprocess.run([compiler, *STRICT, *flags, f"-I{CORE / 'include'}", *sources, "-o", str(out)], check=True)
        return out

    return compile_program


@pytest.fixture(scope="session")
def need_tool() -> Callable[..., None]:
    """``need_tool("qemu-s390x")``: skip, or fail in CI, where it is missing."""
    return need
