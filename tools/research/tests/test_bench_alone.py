# SPDX-License-Identifier: MIT
"""A measurement that is interrupted ends, and its process with it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

LONG = """
import os, time
from peel_research.bench.alone import alone

def stay():
    print(os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    alone(stay)
"""


def test_an_interrupted_measurement_leaves_no_process(tmp_path: Path) -> None:
    program = tmp_path / "long.py"
    program.write_text(LONG)
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(60) != 0
        finally:
            process.kill()
    assert not Path(f"/proc/{child}").exists()
