# SPDX-License-Identifier: MIT
"""Install the module with mip, from a folder that `peel firmware natmod` wrote, on an emulated Pico."""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from peel_hil.duts import Dut
from peel_tools.boards.cache import REPOSITORY
from peel_tools.boards.natmod import publish


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Do not log."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.boards("pico")
def test_mip_installs_the_module_and_the_loader(dut: Dut, site: str, tmp_path: Path) -> None:
    folder = publish("armv6m", tmp_path)
    mip = ["mip", "install", "--target=/lib", f"{site}/armv6m/package.json"]
    done = subprocess.run(
        [sys.executable, "-m", "mpremote", "connect", dut.hand_over(), *mip],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    dut.console.enter_raw()
    assert dut.get("/lib/peelcore.mpy") == (folder / "peelcore.mpy").read_bytes()
    assert dut.get("/lib/peel_load.py") == (REPOSITORY / "bindings/micropython/peel_load.py").read_bytes()
    dut.exec("import os\nos.rename('/lib/peelcore.mpy', '/lib/installed.mpy')")  # this image has peelcore built in
    assert dut.exec("import peel_load\nprint(len(peel_load.load('installed').hash(b'label', b'', 5)))") == "5\n"
