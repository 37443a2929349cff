# SPDX-License-Identifier: MIT
"""TLS to a real broker: the right CA gets through, a wrong one does not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from host_board import HostBoard, config
from peel_device.errors import BoardError
from peel_device.link import Link
from peel_device.outbox import Outbox
from peel_tools.boards.command import require
from peel_tools.servers.broker import Broker, BrokerTls
from power_cut import MemoryFiles


def openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def make_ca(folder: Path, name: str) -> tuple[Path, Path, Path]:
    """A certificate authority: its key, and its certificate as PEM and as DER."""
    key, pem, der = folder / f"{name}.key", folder / f"{name}.pem", folder / f"{name}.der"
    openssl(
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={name}",
        "-keyout",
        key,
        "-out",
        pem,
    )
    openssl("x509", "-in", pem, "-outform", "DER", "-out", der)
    return key, pem, der


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require("openssl")
    folder = tmp_path_factory.mktemp("tls")
    key, pem, _ = make_ca(folder, "ca")
    make_ca(folder, "other")
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    request = folder / "server.csr"
    openssl(
        "req",
        "-new",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-keyout",
        folder / "server.key",
        "-out",
        request,
    )
    signing = ("-CA", pem, "-CAkey", key, "-CAcreateserial", "-days", "2", "-extfile", folder / "san")
    openssl("x509", "-req", "-in", request, *signing, "-out", folder / "server.pem")
    return folder


@pytest.fixture(scope="module")
def tls_broker(certificates: Path) -> Iterator[Broker]:
    tls = BrokerTls(
        ca=certificates / "ca.pem", certificate=certificates / "server.pem", key=certificates / "server.key"
    )
    with Broker(tls=tls, embedded=False) as running:
        yield running


def drained(port: int, ca: Path) -> tuple[int, Link]:
    settings = config(mqtt={"host": "127.0.0.1", "port": port, "tls": True, "ca": str(ca)[-64:]})
    settings.mqtt.ca = str(ca)
    outbox = Outbox(MemoryFiles(), "out", 10)
    outbox.start()
    outbox.put(1, b"frame")
    board = HostBoard()
    link = Link(settings, board, board.clock, os.urandom)
    return link.drain(outbox, {"state": "online"}), link


def test_the_right_ca_gets_through(tls_broker: Broker, certificates: Path) -> None:
    sent, link = drained(tls_broker.port, certificates / "ca.der")
    assert (sent, link.faults) == (1, 0)
    link.stop()


def test_another_ca_is_a_fault_and_nothing_is_sent(tls_broker: Broker, certificates: Path) -> None:
    sent, link = drained(tls_broker.port, certificates / "other.der")
    assert (sent, link.faults, link.up) == (0, 1, False)


def test_a_missing_ca_file_names_the_key(tls_broker: Broker, certificates: Path) -> None:
    with pytest.raises(BoardError, match=r"mqtt\.ca: .*absent\.der is not on the device"):
        drained(tls_broker.port, certificates / "absent.der")
