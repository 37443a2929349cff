# SPDX-License-Identifier: MIT
"""Bare subscribers that only count, for comparison: ``python -m peel_research.bench.subscribers paho|gmqtt HOST PORT TOPIC COUNT``.

Each keeps the session `bench-KIND`, MQTT 5, QoS 1, acknowledging as its library does by itself. With COUNT 0 it only makes the session;
else it counts, and prints messages per second and CPU microseconds per message as JSON, both without the first tenth.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

WINDOW = 4096


class Count:
    """Counts messages, and keeps time from the first tenth on."""

    def __init__(self, total: int) -> None:
        self._first, self._total = total // 10, total
        self._seen = 0
        self.done = False

    def __call__(self) -> None:
        self._seen += 1
        if self._seen == self._first:
            self._started, self._spent = time.perf_counter(), time.process_time()
        elif self._seen == self._total:
            self._print()
            self.done = True

    def _print(self) -> None:
        counted = self._total - self._first
        seconds, cpu = time.perf_counter() - self._started, time.process_time() - self._spent
        print(json.dumps({"messages_per_s": counted / seconds, "cpu_us_per_message": 1e6 * cpu / counted}), flush=True)


def run_paho(host: str, port: int, topic: str, total: int) -> None:
    """paho, in its own loop."""
    import paho.mqtt.client as paho
    from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
    from paho.mqtt.packettypes import PacketTypes
    from paho.mqtt.properties import Properties

    count, subscribed = Count(total), []
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="bench-paho", protocol=MQTTProtocolVersion.MQTTv5)
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval, properties.ReceiveMaximum = 3600, WINDOW

    def on_connect(*_: object) -> None:
        client.subscribe(topic, qos=1)

    client.on_connect = on_connect
    client.on_subscribe = lambda *_: subscribed.append(True)
    client.on_message = lambda *_: count()
    client.connect(host, port, clean_start=False, properties=properties)
    while not (count.done if total else subscribed):
        client.loop(0.1)
    client.disconnect()


def run_gmqtt(host: str, port: int, topic: str, total: int) -> None:
    """gmqtt, on asyncio."""
    import gmqtt  # type: ignore[import-untyped]  # it has no types

    async def main() -> None:
        count, subscribed = Count(total), asyncio.Event()

        async def on_message(*_: object) -> int:
            count()
            if count.done:
                subscribed.set()
            return 0

        client = gmqtt.Client("bench-gmqtt", clean_session=False, session_expiry_interval=3600, receive_maximum=WINDOW)
        client.on_message = on_message
        client.on_subscribe = lambda *_: None if total else subscribed.set()
        await client.connect(host, port)
        client.subscribe(topic, qos=1)
        await subscribed.wait()
        await client.disconnect()

    asyncio.run(main())


if __name__ == "__main__":
    kind, where, at, what, how_many = sys.argv[1:]
    {"paho": run_paho, "gmqtt": run_gmqtt}[kind](where, int(at), what, int(how_many))
