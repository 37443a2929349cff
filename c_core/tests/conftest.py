# SPDX-License-Identifier: MIT
"""Build the core's C programs for the tests: natively, with sanitizers, and for a big-endian machine."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from peel_tools.boards.build_tools import require

CORE = Path(__file__).resolve().parents[1]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wshadow", "-Werror"]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that compiles tests/NAME.c with the core: ``build("driver", "gcc", "-O2")``."""

    def compile_program(name: str, compiler: str, *flags: str) -> Path:
        require(compiler)
        out = tmp_path_factory.mktemp("build") / name
        sources = [str(CORE / "tests" / f"{name}.c"), *map(str, sorted((CORE / "src").glob("*.c")))]
        subprocess.run([compiler, *STRICT, *flags, f"-I{CORE / 'include'}", *sources, "-o", str(out)], check=True)
        return out

    return compile_program
