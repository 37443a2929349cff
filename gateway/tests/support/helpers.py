# SPDX-License-Identifier: MIT
"""Small helpers of many tests: waiting, a profile, certificates, a changed device list, commands as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from peel_core.projection import search_seed
from peel_tools.boards.build_tools import require
from peel_tools.servers.broker import BrokerTls

WIDTH = 48


def wait_until(condition: Callable[[], object], what: str = "the condition", seconds: float = 60.0) -> float:
    """Wait until a condition holds; return the seconds that it took. `what` is for the error message."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"{what} did not come within {seconds:g} s"
        time.sleep(0.02)
    return time.monotonic() - began


def climate_profile(name: str = "climate", *, quota: int = 96, period: int = 86400, lifetime: int | None = None) -> str:
    """Return a profile with two attributes, temperature and soil, by Harmony with epsilon 1."""
    return f"""
name = "{name}"
epsilon = 1.0
verify = false
width = {WIDTH}
seed = {search_seed(WIDTH, 2)[0]}
quota = {quota}
period = {period}
{"" if lifetime is None else f"lifetime = {lifetime}"}
[[attribute]]
kind = "mean"
name = "temperature"
unit = "degC"
low = -10
high = 50
[[attribute]]
kind = "mean"
name = "soil"
unit = ""
low = 0
high = 1
"""


def with_checksum(text: str) -> str:
    """Return a device list with the last line that its checksum needs."""
    whole = text if text.endswith("\n") else text + "\n"
    return whole + f'{{"crc32": "{zlib.crc32(whole.encode()):08x}"}}\n'


def without_device(text: str, device: str) -> str:
    """Return a device list without one device."""
    *lines, _ = text.splitlines(keepends=True)
    return with_checksum("".join(line for line in lines if f'"{device}"' not in line))


def make_certificates(folder: Path) -> BrokerTls:
    """Make a CA and a certificate for localhost with openssl."""
    require("openssl")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=test CA", "-keyout", "ca.key", "-out", "ca.pem")  # fmt: skip
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
            "-keyout", "server.key", "-out", "server.csr")  # fmt: skip
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", "names", "-out", "server.pem")  # fmt: skip
    return BrokerTls(ca=folder / "ca.pem", certificate=folder / "server.pem", key=folder / "server.key")


def as_root(*command: str) -> bool:
    """Run a command, through sudo if we are not root; return whether it succeeded."""
    sudo = ["sudo", "-n"] if os.getuid() and shutil.which("sudo") else []
    return subprocess.run([*sudo, *command], check=False, capture_output=True).returncode == 0
