# SPDX-License-Identifier: MIT
"""A whole gateway at the end of a queue: messages that a real mosquitto holds for it, each acknowledged after its commit.

Beside it, in the same run and from the same queue, subscribers that only count (`bench_subscribers`). Start-up and the first tenth of the
messages are not timed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from peel_core import encode_many
from peel_core.topics import device_topic
from peel_gateway.fleet.registry import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.model.verdict import Verdict
from peel_tools.broker import Broker
from peel_tools.gateway_process import GatewayError, GatewayProcess
from peel_tools.profile_text import Draft, number_table
from peel_tools.simulation.profiles import fleet_of

__all__ = ["measure"]

DEVICES = 500
BATCHED = 32
_FLEET = "bench"
_TOPIC = f"peel/v1/{_FLEET}/+/+/report"
_POLL_SECONDS = 0.01
_PATIENCE = 300.0
_UNACKNOWLEDGED = 2000
_QUEUED = 20_000


@dataclass(frozen=True)
class _Run:
    messages_per_s: float
    cpu_us_per_message: float
    rss_mb: float


def measure(*, messages: int = 70_000, k: int = 16) -> dict[str, Any]:
    """The figures of ``peel bench ingest``."""
    with tempfile.TemporaryDirectory() as folder, Broker(embedded=False) as broker:
        fleet = _make_fleet(Path(folder) / "fleet", k)
        gateway = GatewayProcess(
            fleet=fleet.folder, folder=Path(folder), broker_port=broker.port, settings={"http_port": 0}
        )
        bare = ["paho", "gmqtt"]
        _make_sessions(gateway, broker, bare)
        _publish(broker, fleet, messages, 1, 1)
        single = _gateway_run(gateway, messages)
        beside = {name: _subscriber(broker, name, messages) for name in bare}
        first = 1 + -(-messages // DEVICES)
        batches = messages // 8
        _publish(broker, fleet, batches, BATCHED, first)
        batched = _gateway_run(gateway, batches, BATCHED)
    return {
        "k": k,
        "messages": messages,
        "messages_per_s": round(single.messages_per_s),
        "cpu_us_per_message": round(single.cpu_us_per_message, 1),
        "bare_paho_per_s": round(beside["paho"]["messages_per_s"]),
        "bare_gmqtt_per_s": round(beside["gmqtt"]["messages_per_s"]),
        "ratio_vs_bare_paho": round(single.messages_per_s / beside["paho"]["messages_per_s"], 2),
        "ratio_vs_bare_gmqtt": round(single.messages_per_s / beside["gmqtt"]["messages_per_s"], 2),
        "batched_reports_per_s": round(BATCHED * batched.messages_per_s),
        "rss_mb": round(max(single.rss_mb, batched.rss_mb), 1),
    }


def _make_fleet(folder: Path, k: int) -> Fleet:
    tables = "".join(number_table(f"a{place}", "0", "1") for place in range(k))
    path = folder.with_name("bench.toml")
    path.write_text(Draft(name=_FLEET, tables=tables, numeric=True, quota=1_000_000, period=1).text(), encoding="utf-8")
    return fleet_of(folder, _FLEET, [path], {_FLEET: DEVICES})


def _make_sessions(gateway: GatewayProcess, broker: Broker, bare: list[str]) -> None:
    """Let everybody subscribe, then leave: from now on the broker keeps their messages."""
    gateway.start(until="started")
    gateway.wait_for(lambda: "connected" in gateway.log_tail(), what="a connection to the broker")
    gateway.stop()
    for name in bare:
        _call_subscriber(broker, name, 0)


def _publish(broker: Broker, fleet: Fleet, messages: int, frames: int, first_number: int) -> None:
    """Honest reports of devices in turn, so many frames in each message."""
    snapshot = take_snapshot(fleet)
    (profile,) = snapshot.profiles
    ring = snapshot.keyring
    who = np.repeat(np.arange(messages) % DEVICES, frames)
    turn = np.repeat(np.arange(messages) // DEVICES, frames) * frames + np.tile(np.arange(frames), messages)
    readings = np.zeros((len(who), profile.k), np.int32)
    encoded = encode_many(
        profile,
        ring.device_ids[who],
        ring.keys.of(ring.last_bundle[who]),
        first_number + turn,
        readings,
        entropy=os.urandom(64),
    )
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="bench-publisher")
    client.max_inflight_messages_set(_UNACKNOWLEDGED)
    client.connect(broker.host, broker.port)
    client.loop_start()
    sent: deque[paho.MQTTMessageInfo] = deque()
    for message in range(messages):
        if len(sent) == _QUEUED:  # paho has 65,535 identifiers, and refuses what finds its own still taken
            sent.popleft().wait_for_publish(_PATIENCE)
        topic = device_topic(_FLEET, int(ring.device_ids[message % DEVICES]), "report")
        sent.append(client.publish(topic, encoded[message * frames : (message + 1) * frames].tobytes(), qos=1))
    for each in sent:
        each.wait_for_publish(_PATIENCE)
    client.disconnect()
    client.loop_stop()


def _gateway_run(gateway: GatewayProcess, messages: int, frames: int = 1) -> _Run:
    """Start it, and time it from the first tenth to the last of its messages."""
    with gateway.store() as store:

        def stored() -> int:
            return store.counts().verdicts.get(Verdict.ACCEPTED, 0)

        before = stored()
        gateway.start(until="started")
        pid = gateway.pid
        assert pid is not None
        began, spent, at = _wait(gateway, stored, before + messages * frames // 10)
        ended, spent_then, then = _wait(gateway, stored, before + messages * frames)
        rss = _rss_mb(pid)
        gateway.stop()
    counted = (then - at) / frames
    return _Run(counted / (ended - began), 1e6 * (spent_then - spent) / counted, rss)


def _wait(gateway: GatewayProcess, stored: Callable[[], int], until: int) -> tuple[float, float, int]:
    """When so many were stored, the CPU seconds until then, and how many they were."""
    deadline = time.monotonic() + _PATIENCE
    while (count := stored()) < until:
        if gateway.pid is None or time.monotonic() > deadline:
            raise GatewayError(
                f"{count} of {until} messages were stored; end of the gateway's log:\n{gateway.log_tail()}"
            )
        time.sleep(_POLL_SECONDS)
    assert gateway.pid is not None
    return time.perf_counter(), _cpu_seconds(gateway.pid), count


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _subscriber(broker: Broker, name: str, messages: int) -> dict[str, float]:
    found: dict[str, float] = json.loads(_call_subscriber(broker, name, messages))
    return found


def _call_subscriber(broker: Broker, name: str, messages: int) -> str:
    words = [name, broker.host, str(broker.port), _TOPIC, str(messages)]
    done = subprocess.run(
        [sys.executable, "-m", "peel_tools.bench_subscribers", *words],
        capture_output=True, text=True, timeout=_PATIENCE, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the bare {name} subscriber failed: {done.stderr[-500:]}")
    return done.stdout
