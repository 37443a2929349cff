# SPDX-License-Identifier: MIT
"""Certificates for brokers that speak TLS."""

from __future__ import annotations

import subprocess
from pathlib import Path

from peel_tools.boards.build_tools import require
from peel_tools.servers.broker import BrokerTls


def make_certificates(folder: Path) -> BrokerTls:
    """A CA and a certificate for localhost, made by openssl."""
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
