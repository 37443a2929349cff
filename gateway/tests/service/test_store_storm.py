# SPDX-License-Identifier: MIT
"""A store that fails again and again under load: every acknowledged report is stored, and every device gets its receipt."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from databases import PostgresSchema
from field import DEVICES, Devices, Field

from peel_core.frame import DEVICE, NUMBER
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import read_log
from peel_tools.servers.gateway import GatewayProcess

ROUNDS = 8
CUTS = 40
SETTINGS: dict[str, Any] = {
    "batch_messages": 1,
    "batch_seconds": 0,
    "mqtt_receipt_seconds": 0.2,
    "store_lock_seconds": 1,
}
"""A commit for each message: many can fail, and each failure is about one message."""

Report = tuple[str, bytes]


@pytest.fixture
def fsync_fails(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Preload failing fsyncs into the gateways of this test; one in ten fails while the returned file exists."""
    library, armed = tmp_path / "faulty_fsync.so", tmp_path / "fsync fails"
    source = Path(__file__).parents[1] / "support" / "faulty_fsync.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    for name, value in (
        ("LD_PRELOAD", library),
        ("FAULTY_FSYNC_WHILE", armed),
        ("FAULTY_FSYNC_PERCENT", 10),
        ("FAULTY_FSYNC_SEED", seed),
    ):
        monkeypatch.setenv(name, str(value))
    return armed


def test_failing_fsyncs_lose_no_acknowledged_report(field: Field, fsync_fails: Path) -> None:
    gateway = field.new_gateway(**SETTINGS).start()
    fsync_fails.touch()
    sent = publish_in_rounds(field, gateway)
    fsync_fails.unlink()
    finish(field, gateway, sent, "StoreFailed")
    field.audit(gateway, sent)


def test_cut_sessions_lose_no_acknowledged_report(
    field: Field, new_schema: Callable[[], PostgresSchema], rng: np.random.Generator
) -> None:
    schema = new_schema()
    place: dict[str, Any] = {"store_url": schema.url, "store_schema": schema.schema, "store_partitions": 2}
    gateway = field.new_gateway(**SETTINGS, **place).start()
    gateway.wait_for(lambda: gateway.summary()["worker"]["partitions"] == [0, 1])
    with cutting_sessions(schema, rng):
        sent = publish_in_rounds(field, gateway)
    finish(field, gateway, sent, "StoreAway")
    field.audit(gateway, sent)


@contextmanager
def cutting_sessions(schema: PostgresSchema, rng: np.random.Generator) -> Iterator[None]:
    """End sessions of the gateway that are at work, one at a time, after random pauses."""
    ended = threading.Event()

    def cut() -> None:
        busy = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'peel%' AND state <> 'idle' ORDER BY pid"
        cuts = 0
        with psycopg.connect(schema.url, autocommit=True) as admin:
            while cuts < CUTS and not ended.wait(rng.uniform(0, 0.1)):
                found = admin.execute(busy).fetchall()
                if found:
                    (victim,) = found[rng.integers(len(found))]
                    admin.execute("SELECT pg_terminate_backend(%s)", (victim,))
                    cuts += 1

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def publish_in_rounds(field: Field, gateway: GatewayProcess) -> list[Report]:
    """Publish reports of all devices, some at a time; the gateway has acknowledged as many messages on return."""
    sent: list[Report] = []
    for _ in range(ROUNDS):
        reports = field.reports(DEVICES)
        field.publish(reports)
        sent += reports
    gateway.wait_for(lambda: metric(gateway, "peel_messages_total") >= len(sent), 120, "the acknowledgements")
    return sent


def finish(field: Field, gateway: GatewayProcess, sent: list[Report], failure: str) -> None:
    """Check what the storm has left; `sent` gets a last report of each device."""
    failed = metric(gateway, f'peel_store_failures_total{{kind="{failure}"}}')
    last = field.reports(DEVICES)
    field.publish(last)
    sent += last
    # The broker keeps the order: a device's last report is stored after its others are acknowledged.
    gateway.wait_for(lambda: pairs(last) <= stored(gateway), 30, "the last report of each device")
    acked_not_stored = len(pairs(sent) - stored(gateway))
    assert acked_not_stored == 0, f"{acked_not_stored} of {len(sent)} acknowledged reports are not stored"
    assert not gateway.store_path.with_name(f"{gateway.store_path.name}.dead-letters").exists()
    assert failed > 0, "nothing failed: nothing was tested"
    with Devices(field) as devices:  # receipts are retained

        def settled(device: int, number: int) -> bool:
            return any(receipt.settles(number) for receipt in devices.told(device))

        gateway.wait_for(lambda: all(settled(*report) for report in pairs(sent)), 30, "a receipt for every report")
    assert gateway.stop() == 0


def pairs(reports: list[Report]) -> set[tuple[int, int]]:
    """Device and number of each report."""
    return {(DEVICE.of(frame), NUMBER.of(frame)) for _, frame in reports}


def stored(gateway: GatewayProcess) -> set[tuple[int, int]]:
    """Device and number of each accepted report in the database."""
    with gateway.store() as store:
        log = read_log(store)
    accepted = log.verdict == Verdict.ACCEPTED
    return set(zip(log.device[accepted].tolist(), log.number[accepted].tolist(), strict=True))


def metric(gateway: GatewayProcess, name: str) -> float:
    """Return one of the gateway's metrics, given with its labels."""
    (line,) = (line for line in gateway.fetch("/metrics").splitlines() if line.startswith(f"{name} "))
    return float(line.split()[-1])
