# SPDX-License-Identifier: MIT
"""Benchmarks without what they compare with or measure on: said plainly, before anything is measured."""

from __future__ import annotations

import subprocess
import sys

import pytest

from peel_gateway.exits import Exit

WITHOUT = """
import sys
sys.modules["{module}"] = None
from peel_tools.cli import main
main(["bench", *{words}])
"""


@pytest.mark.parametrize(
    ("words", "module", "remedy"),
    [
        (["ingest", "--messages", "10"], "gmqtt", "pip install gmqtt"),
        (["scale"], "psycopg", "pip install 'peel-telemetry[postgres]'"),
    ],
)
def test_what_is_missing_is_said_plainly(words: list[str], module: str, remedy: str) -> None:
    """`make run` installs neither of them."""
    program = WITHOUT.format(module=module, words=words)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == Exit.MISSING
    assert remedy in done.stderr
