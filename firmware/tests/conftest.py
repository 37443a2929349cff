# SPDX-License-Identifier: MIT
"""Fixtures of the firmware's tests. They test the same files that are copied to a device."""

from __future__ import annotations

import binascii
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from inbox import Inbox

from peel_tools.boards.build_tools import require
from peel_tools.boards.sources import umqtt_folder
from peel_tools.servers.broker import Broker, BrokerTls

sys.path.append(str(umqtt_folder()))
# umqtt.simple imports these by MicroPython's old names.
sys.modules.setdefault("ustruct", struct)
sys.modules.setdefault("ubinascii", binascii)


@pytest.fixture
def core() -> ModuleType:
    """The core with the interface that `peelcore` has on a device."""
    from peel_core import peelcore

    return peelcore


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker on loopback."""
    with Broker() as running:
        yield running


@pytest.fixture
def inbox(broker: Broker) -> Iterator[Inbox]:
    """A subscriber to everything under peel/v1/lab/."""
    with Inbox(broker) as listening:
        yield listening


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def make_ca(folder: Path, name: str) -> tuple[Path, Path, Path]:
    """Make a certificate authority. Return the paths of its key and its certificate (PEM and DER)."""
    key, pem, der = folder / f"{name}.key", folder / f"{name}.pem", folder / f"{name}.der"
    openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", key, "-out", pem),
    )
    openssl("x509", "-in", pem, "-outform", "DER", "-out", der)
    return key, pem, der


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two certificate authorities, and a server's certificate by the first."""
    require("openssl")
    folder = tmp_path_factory.mktemp("tls")
    key, pem, _ = make_ca(folder, "ca")
    make_ca(folder, "other")
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    request = folder / "server.csr"
    openssl(
        *("req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"),
        *("-keyout", folder / "server.key", "-out", request),
    )
    signing = ("-CA", pem, "-CAkey", key, "-CAcreateserial", "-days", "2", "-extfile", folder / "san")
    openssl("x509", "-req", "-in", request, *signing, "-out", folder / "server.pem")
    return folder


@pytest.fixture(scope="module")
def tls_broker(certificates: Path) -> Iterator[Broker]:
    """A broker with the server certificate of `certificates`."""
    tls = BrokerTls(
        ca=certificates / "ca.pem", certificate=certificates / "server.pem", key=certificates / "server.key"
    )
    with Broker(tls=tls, embedded=False) as running:
        yield running
