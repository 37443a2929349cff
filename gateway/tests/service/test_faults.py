# SPDX-License-Identifier: MIT
"""Faults of the machine: a full disk, a locked or damaged database, missing permissions."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from field import HEALTHY, Field, MakeField, locked_store
from helpers import as_root

from peel_core.frame import DEVICE
from peel_gateway.exits import Exit
from peel_tools.servers.gateway import GatewayProcess


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not as_root("mount", "-t", "tmpfs", "-o", f"size=1m,uid={os.getuid()}", "tmpfs", str(folder)):
        pytest.skip("cannot mount a small file system here (needs root, or sudo without a password)")
    yield folder
    assert as_root("umount", "-l", str(folder))


def _enlarge(folder: Path) -> None:
    assert as_root("mount", "-o", "remount,size=64m", str(folder))


def _fill(folder: Path) -> Path:
    """Write until nothing fits any more."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(4096))
    return ballast


def test_a_full_disk_stops_the_acknowledgements_and_loses_nothing(field: Field, small_disk: Path) -> None:
    gateway = field.new_gateway(store_path=small_disk / "peel.sqlite", health_store_seconds=0).start()
    sent = field.reports(3100)
    field.publish(sent[:100])
    field.wait_accepted(gateway, 100)
    ballast = _fill(small_disk)
    field.publish(sent[100:])
    gateway.wait_for(lambda: gateway.summary()["health"])
    with pytest.raises(urllib.error.HTTPError) as refused:
        gateway.get("/healthz")
    assert refused.value.code == 503
    assert "StoreFull" in refused.value.read().decode()
    assert gateway.summary()["totals"]["accepted"] < 3100

    ballast.unlink()
    _enlarge(small_disk)
    field.wait_accepted(gateway, 3100)
    assert gateway.get("/healthz") == HEALTHY
    assert gateway.stop() == 0
    field.audit(gateway, sent)


def test_a_stop_while_the_disk_is_full_says_so_and_loses_nothing(field: Field, small_disk: Path) -> None:
    gateway = field.new_gateway(store_path=small_disk / "peel.sqlite", health_store_seconds=0).start()
    ballast = _fill(small_disk)
    sent = field.reports(3000)
    field.publish(sent)
    gateway.wait_for(lambda: gateway.summary()["health"])
    assert gateway.stop() == 6
    ballast.unlink()
    _enlarge(small_disk)
    gateway.start()
    field.wait_accepted(gateway, 3000)
    assert gateway.stop() == 0
    field.audit(gateway, sent)


def test_a_full_disk_at_the_start_ends_with_a_code_after_which_it_is_started_again(field: Field) -> None:
    """A database that was not closed is recovered first, for which SQLite has to write."""
    gateway = field.new_gateway().start()
    sent = field.reports(100)
    field.publish(sent)
    field.wait_accepted(gateway, 100)
    gateway.kill()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (gateway.log_path.stat().st_size + 10_000, before[1]))
    try:
        gateway.start(until="started")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert gateway.wait_end() == 7
    assert "disk reported an error" in gateway.log_tail()
    gateway.start()
    assert gateway.stop() == 0
    field.audit(gateway, sent)


def test_a_locked_database_is_waited_for(field: Field) -> None:
    gateway = field.new_gateway(store_lock_seconds=0.2, health_store_seconds=0).start()
    sent = field.reports(100)
    field.publish(sent[:50])
    field.wait_accepted(gateway, 50)
    with locked_store(gateway):
        field.publish(sent[50:])
        gateway.wait_for(lambda: any("StoreLocked" in cause for cause in gateway.summary()["health"]))
        assert gateway.summary()["totals"]["accepted"] == 50
        assert 'peel_store_failures_total{kind="StoreLocked"}' in gateway.fetch("/metrics")
    field.wait_accepted(gateway, 100)
    gateway.wait_for(lambda: gateway.summary()["health"] == [])
    assert gateway.stop() == 0
    field.audit(gateway, sent)


def test_a_locked_database_and_a_broker_restart_at_once(field: Field) -> None:
    """The batch in hand outlives its link: it is stored once, its stale packet identifiers go nowhere."""
    gateway = field.new_gateway(store_lock_seconds=0.2, health_store_seconds=0).start()
    sent = field.reports(120)
    with locked_store(gateway):
        field.publish(sent[:80])
        gateway.wait_for(lambda: gateway.summary()["inbox"]["pending"] == 80 and gateway.summary()["health"])
        field.broker.stop()
        field.broker.start()
        gateway.wait_for(lambda: gateway.summary()["inbox"]["pending"] == 160)  # the same once more
    field.wait_accepted(gateway, 80)
    field.publish(sent[80:])
    field.wait_accepted(gateway, 120)
    assert gateway.stop() == 0
    field.audit(gateway, sent)
    assert field.counts(gateway).exposed == 0


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_a_long_lock_keeps_the_memory_bounded(field: Field, protocol: str) -> None:
    """Longer than the keep-alive allows, over several connections: never more than two windows are in the gateway."""
    window = 20
    settings: dict[str, Any] = {"store_lock_seconds": 0.2, "mqtt_keepalive_seconds": 5, "batch_messages": 5}
    gateway = field.new_gateway(mqtt_protocol=protocol, mqtt_window=window, **settings).start()
    sent = field.reports(300)
    with locked_store(gateway):
        field.publish(sent)
        gateway.wait_for(lambda: gateway.summary()["inbox"]["pending"] == window)
        _watch_pending(gateway, 9, most=window)  # the broker's patience is 1.5 times the keep-alive
        if protocol == "5":
            assert "peel_broker_connections_total 2.0" in gateway.fetch("/metrics")  # for reports and for statuses
        for _ in range(3):
            field.broker.stop()
            field.broker.start()
            _watch_pending(gateway, 1, most=2 * window)
    field.wait_accepted(gateway, 300)
    assert gateway.stop() == 0
    field.audit(gateway, sent)


def _watch_pending(gateway: GatewayProcess, seconds: float, *, most: int) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert gateway.summary()["inbox"]["pending"] <= most
        time.sleep(0.05)


@pytest.mark.parametrize("what", ["random", "sqlite"])
def test_a_file_that_is_no_database_of_ours_is_left_alone(field: Field, what: str, rng: np.random.Generator) -> None:
    gateway = field.new_gateway()
    if what == "random":
        gateway.store_path.write_bytes(rng.bytes(8192))
    else:
        other = sqlite3.connect(gateway.store_path)
        other.execute("CREATE TABLE precious (x)")
        other.commit()
        other.close()
    before = gateway.store_path.read_bytes()
    gateway.start(until="started")
    assert gateway.wait_end() == 4
    assert "database cannot be used" in gateway.log_tail()
    assert gateway.store_path.read_bytes() == before


def test_damage_while_running_ends_the_service_and_a_copy_saves_the_reports(
    field: Field, rng: np.random.Generator
) -> None:
    gateway = field.new_gateway().start()
    field.publish(field.reports(400))
    field.wait_accepted(gateway, 400)
    assert gateway.stop() == 0
    saved = gateway.store_path.with_suffix(".saved")
    shutil.copy(gateway.store_path, saved)
    with gateway.store_path.open("r+b") as file:  # all pages but the first: it opens, and fails when used
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(rng.bytes(size - 4096))
    damaged = gateway.store_path.read_bytes()
    field.publish(field.reports(100))
    gateway.start(until="started")
    assert gateway.wait_end() == 4
    assert gateway.store_path.read_bytes()[4096:] == damaged[4096:]
    shutil.copy(saved, gateway.store_path)
    for leftover in gateway.store_path.parent.glob("peel.sqlite-*"):
        leftover.unlink()
    gateway.start()
    field.wait_accepted(gateway, 500)


def test_a_key_that_others_can_read_keeps_it_from_starting(field: Field) -> None:
    (field.fleet.folder / "master.key").chmod(0o644)
    gateway = field.new_gateway()
    gateway.start(until="started")
    assert gateway.wait_end() == 3
    assert "chmod 600" in gateway.log_tail()
    key = (field.fleet.folder / "master.key").read_text().strip()
    assert key not in gateway.log_path.read_text()
    assert not gateway.store_path.exists()


def test_a_taken_port_and_a_missing_token_keep_it_from_starting(field: Field) -> None:
    first = field.new_gateway().start()
    second = field.new_gateway("second", http_port=first.url.rsplit(":", 1)[1])
    second.start(until="started")
    assert second.wait_end() == 5
    assert "cannot listen on" in second.log_tail()
    assert "Set another http.port" in second.log_tail()
    open_door = field.new_gateway("third", http_host="0.0.0.0")
    open_door.start(until="started")
    assert open_door.wait_end() == 5
    assert "set http.token" in open_door.log_tail()


def test_a_second_gateway_on_one_file_is_refused(field: Field, tmp_path: Path) -> None:
    """Whatever its name for the file; commands still take turns with the first, which goes on."""
    first = field.new_gateway().start()
    (tmp_path / "link.sqlite").symlink_to(first.store_path)
    for name, path in (("second", first.store_path), ("third", tmp_path / "link.sqlite")):
        second = field.new_gateway(name, store_path=path)
        second.start(until="started")
        assert second.wait_end() == 7
        assert f"a gateway already runs on this database (process {first.pid})" in second.log_tail()
    sent = field.reports(20)
    field.publish(sent)
    field.wait_accepted(first, 20)
    for command in ("estimates", "recount", "replay", "clock"):
        assert first.command(command).returncode == 0
    first.kill()
    first.start()
    assert first.stop() == 0
    field.audit(first, sent)


def test_a_wrong_setting_keeps_it_from_starting(field: Field) -> None:
    gateway = field.new_gateway(mqtt_window=0)
    gateway.start(until="started")
    assert gateway.wait_end() == 2
    assert "PEEL_GATEWAY_MQTT_WINDOW: must be between 1 and 65,535" in gateway.log_tail()


def test_what_unknown_devices_send_is_counted_and_kept_only_as_far_as_allowed(make_field: MakeField) -> None:
    """Frames of ids that nobody registered, as many as fit into large messages. That they take no memory: `test_engine.py`."""
    field = make_field(persistent=False)
    gateway = field.new_gateway(quarantine_pieces=1000, quarantine_bytes=200_000).start()
    (_, frame), *_ = field.reports(1)
    each, messages = 5000, 6
    payloads = [
        b"".join(DEVICE.put(frame, device) for device in range(first, first + each))
        for first in range(1000, 1000 + each * messages, each)
    ]
    field.publish([(field.topic(1), payload) for payload in payloads])
    gateway.wait_for(lambda: gateway.summary()["totals"]["verdicts"]["device"] == each * messages, 120)
    totals = gateway.summary()["totals"]
    assert 0 < totals["quarantined"] <= 1000
    assert totals["dropped"]["device"] == each * messages - totals["quarantined"]
    assert gateway.stop() == 0


def test_a_fleet_folder_from_an_old_copy_is_refused(field: Field, tmp_path: Path) -> None:
    """The gateway goes on with the registry that it has, and says so; once stopped it does not start."""
    copy = tmp_path / "old-devices.jsonl"
    registry = field.fleet.folder / "devices.jsonl"
    shutil.copy(registry, copy)
    field.fleet.enrol("climate")
    gateway = field.new_gateway().start()
    shutil.copy(copy, registry)
    gateway.wait_for(lambda: gateway.summary()["reload"]["refused"])
    assert any("restored from an old copy" in cause for cause in gateway.summary()["health"])
    messages = field.reports(20, devices=[1])
    field.publish(messages)
    field.wait_accepted(gateway, 20)
    gateway.stop()
    assert gateway.command("run").returncode == Exit.FLEET
