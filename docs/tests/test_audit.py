# SPDX-License-Identifier: MIT
"""The audit finds the index's advisories, and does not pass when the index cannot be read."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

AUDIT = Path(__file__).resolve().parents[2] / "scripts" / "audit.py"
ADVISORY = {"id": "PYSEC-1", "summary": "a hole", "fixed_in": ["99.1"], "withdrawn": None}


class Advisories(ThreadingHTTPServer):
    """A package index, of which one package may be fine."""

    fine = ""


class Index(BaseHTTPRequestHandler):
    """Answer with a vulnerability in one package, and a withdrawn one in another."""

    def do_GET(self) -> None:
        name = self.path.split("/")[2]
        found = {"click": [ADVISORY], "numpy": [ADVISORY | {"withdrawn": "2026-01-01"}]}.get(name, [])
        self.send_response(200)
        self.end_headers()
        assert isinstance(self.server, Advisories)
        self.wfile.write(json.dumps({"vulnerabilities": found if name != self.server.fine else []}).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[Advisories]:
    server = Advisories(("127.0.0.1", 0), Index)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def audit(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, AUDIT, *words], env={"PEEL_AUDIT_URL": url}, capture_output=True, text=True, check=False
    )


def test_a_known_vulnerability_fails(index: Advisories) -> None:
    done = audit(f"http://127.0.0.1:{index.server_port}/pypi")
    assert done.returncode == 1
    assert "PYSEC-1: a hole (fixed in 99.1)" in done.stderr
    assert done.stderr.count("PYSEC-1") == 1, "the other one was taken back"


def test_none_is_said_with_how_many_were_looked_up(index: Advisories) -> None:
    index.fine = "click"
    done = audit(f"http://127.0.0.1:{index.server_port}/pypi", "--strict")
    assert (done.returncode, done.stderr) == (0, "")
    assert "packages looked up, none with a known vulnerability" in done.stdout


def test_nobody_who_answers_is_no_audit() -> None:
    done = audit("http://127.0.0.1:9/pypi")
    assert done.returncode == 0
    assert "NOT LOOKED UP" in done.stderr
    assert done.stdout == ""
    assert audit("http://127.0.0.1:9/pypi", "--strict").returncode == 1
