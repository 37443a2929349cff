# SPDX-License-Identifier: MIT
"""A whole gateway at the end of a queue: messages that a real broker holds for it, each acknowledged after its commit.

Beside it, in the same run and from the same queue of mosquitto, subscribers that only count (`subscribers`).
Start-up and the first tenth of the messages are not timed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peel_core.topics import fleet_topic
from peel_gateway.model.verdict import Verdict
from peel_gateway.settings import Settings
from peel_research.bench.load import FLEET, Load, cpu_seconds, publish, rss_mb
from peel_tools.servers.broker import BROKERS, AnyBroker, Broker
from peel_tools.servers.gateway import GatewayError, GatewayProcess, Site

__all__ = ["measure"]

BATCHED = 32
_TOPIC = fleet_topic(FLEET, "+", "+", "report")
_POLL_SECONDS = 0.01
_PATIENCE = 300.0


@dataclass(frozen=True)
class _Run:
    messages_per_s: float
    cpu_us_per_message: float
    rss_mb: float


@dataclass(frozen=True)
class _Mark:
    moment: float
    spent: float
    """CPU seconds until then."""
    stored: int
    """Reports until then."""


def measure(*, messages: int = 70_000, k: int = 16, kind: str = "mosquitto") -> dict[str, Any]:
    """The figures of ``peel bench ingest``, at a broker of this kind."""
    bare = ["paho", "gmqtt"] if kind == "mosquitto" else []  # they speak MQTT 5, which not every broker does
    with tempfile.TemporaryDirectory() as folder:
        load, broker = Load(Path(folder) / "fleet", k), _broker(kind, Path(folder) / "broker")
        with Site(Path(folder), load.fleet, broker) as site:
            gateway = site.add_gateway(settings={"http_port": 0, "batch_seconds": Settings().batch_seconds})
            _make_sessions(gateway, broker, bare)
            publish(broker, load.messages(messages))
            single = _gateway_run(gateway, messages)
            beside = {name: _subscriber(broker, name, messages) for name in bare}
            batches = messages // 8
            publish(broker, load.messages(batches, BATCHED))
            batched = _gateway_run(gateway, batches, BATCHED)
    rates = {name: figures["messages_per_s"] for name, figures in beside.items()}
    return {
        "broker": kind,
        "k": k,
        "messages": messages,
        "messages_per_s": round(single.messages_per_s),
        "cpu_us_per_message": round(single.cpu_us_per_message, 1),
        **{f"bare_{name}_per_s": round(rate) for name, rate in rates.items()},
        **{f"ratio_vs_bare_{name}": round(single.messages_per_s / rate, 2) for name, rate in rates.items()},
        "batched_reports_per_s": round(BATCHED * batched.messages_per_s),
        "batched_cpu_us_per_report": round(batched.cpu_us_per_message / BATCHED, 2),
        "rss_mb": round(max(single.rss_mb, batched.rss_mb), 1),
    }


def _broker(kind: str, folder: Path) -> AnyBroker:
    """mosquitto keeps the queue in memory here, so that nothing but the gateway writes; NATS knows no queue but on disk."""
    folder.mkdir()
    return Broker(folder=folder, embedded=False) if kind == "mosquitto" else BROKERS[kind](folder, 1)


def _make_sessions(gateway: GatewayProcess, broker: AnyBroker, bare: list[str]) -> None:
    """Let everybody subscribe, then leave: from now on the broker keeps their messages."""
    gateway.start(until="started")
    gateway.wait_for(lambda: gateway.connections() == 2, what="its connections to the broker")
    gateway.stop()
    for name in bare:
        _call_subscriber(broker, name, 0)


def _gateway_run(gateway: GatewayProcess, messages: int, frames: int = 1) -> _Run:
    """Start it, and time it from the first tenth to the last of its messages."""
    with gateway.store() as store:

        def stored() -> int:
            return store.counts().verdicts.get(Verdict.ACCEPTED, 0)

        before = stored()
        gateway.start(until="started")
        pid = gateway.pid
        assert pid is not None
        began = _Mark(time.perf_counter(), 0.0, before)
        tenth = _wait(gateway, stored, before + messages * frames // 10)
        ended = _wait(gateway, stored, before + messages * frames)
        rss = rss_mb(pid)
        gateway.stop()
    if tenth.stored < ended.stored:  # or it was all one batch, and start-up counts
        began = tenth
    counted = (ended.stored - began.stored) / frames
    return _Run(counted / (ended.moment - began.moment), 1e6 * (ended.spent - began.spent) / counted, rss)


def _wait(gateway: GatewayProcess, stored: Callable[[], int], until: int) -> _Mark:
    """Wait until so many are stored."""
    deadline = time.monotonic() + _PATIENCE
    while (count := stored()) < until:
        if gateway.pid is None or time.monotonic() > deadline:
            raise GatewayError(
                f"{count} of {until} messages were stored; end of the gateway's log:\n{gateway.log_tail()}"
            )
        time.sleep(_POLL_SECONDS)
    assert gateway.pid is not None
    return _Mark(time.perf_counter(), cpu_seconds(gateway.pid), count)


def _subscriber(broker: AnyBroker, name: str, messages: int) -> dict[str, float]:
    found: dict[str, float] = json.loads(_call_subscriber(broker, name, messages))
    return found


def _call_subscriber(broker: AnyBroker, name: str, messages: int) -> str:
    words = [name, broker.host, str(broker.port), _TOPIC, str(messages)]
    done = subprocess.run(
        [sys.executable, "-m", "peel_research.bench.subscribers", *words],
        capture_output=True, text=True, timeout=_PATIENCE, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the bare {name} subscriber failed: {done.stderr[-500:]}")
    return done.stdout
