# SPDX-License-Identifier: MIT
"""Runs on MicroPython: the whole application for a long simulated time on a small heap.

Usage: micropython -X heapsize=N year_on_micropython.py FIRMWARE UMQTT BINDINGS REPORTS. Prints one line per part of the run:
reports so far, free bytes after a collection, bytes of the largest free block, files written, frames dropped, link faults.

The clock is a tick counter that wraps every 2^30 ms, as a board's does, and starts shortly before a wrap. The wire emulates
a broker that is away from time to time and a gateway that confirms reports with receipts.
"""

import gc
import os
import sys

from heap_on_micropython import largest_free

sys.path[:0] = sys.argv[1:4]  # before the imports that need it

import peel_load
from peel_device import app, config
from peel_device.timing import TickClock

TICKS = 1 << 30
PARTS = 10
AWAY_EVERY, AWAY = 700, 250  # in reports: an outbox of 100 overflows each time


class Ticks:
    """A board's tick counter, advanced by its pauses."""

    def __init__(self):
        self.at = TICKS - 60000

    def read(self):
        return self.at % TICKS

    def difference(self, end, start):
        return (end - start + TICKS // 2) % TICKS - TICKS // 2


class Files:
    """A flash in memory that counts writes."""

    def __init__(self):
        self.kept = {}
        self.writes = 0

    def read(self, path):
        return self.kept.get(path)

    def write(self, path, data):
        self.writes += 1
        self.kept[path] = bytes(data)

    def remove(self, path):
        self.kept.pop(path, None)

    def names(self, folder):
        return [path[len(folder) + 1 :] for path in self.kept if path.startswith(folder + "/")]

    def make_folder(self, path):
        pass


class BrokerWire:
    """A wire to a broker that acknowledges everything and a gateway that stores everything."""

    def __init__(self, core, key, device):
        self._core, self._key, self._device = core, key, device
        self._sent, self._answer = b"", b""

    def receive(self, limit):
        some, self._answer = self._answer[:limit], self._answer[limit:]
        return some or None

    def send(self, data):
        self._sent += bytes(data)
        while len(self._sent) > 1:
            length, at, shift = 0, 1, 0
            while True:
                byte = self._sent[at]
                length |= (byte & 127) << shift
                at, shift = at + 1, shift + 7
                if byte < 128:
                    break
            packet, self._sent = self._sent[: at + length], self._sent[at + length :]
            self._take(packet[0] >> 4, packet[at:])
        return len(data)

    def _take(self, kind, body):
        if kind == 1:
            self._answer += b"\x20\x02\x00\x00"
        elif kind == 8:
            self._answer += b"\x90\x03" + body[:2] + b"\x00"
        elif kind == 12:
            self._answer += b"\xd0\x00"
        elif kind == 3:
            topic = 2 + int.from_bytes(body[:2], "big")
            self._answer += b"\x40\x02" + body[topic : topic + 2]
            if body[:topic].endswith(b"report"):
                self._confirm(body[topic + 2 :])

    def _confirm(self, frames):
        newest = frames[-FRAME_BYTES:]
        receipt = b"\x10" + self._device.to_bytes(4, "little") + newest[10:16]
        receipt += self._core.hash(b"peel/1 receipt", self._key + receipt, 8)
        self._answer += bytes([0x30, 3 + len(receipt)]) + b"\x00\x01r" + receipt

    def close(self):
        pass


FRAME_BYTES = 16 + 4 + 10 + 8  # at width 48


class Board:
    """A board whose clock advances only in its pauses."""

    name = "host"

    def __init__(self, dial):
        self.ticks = Ticks()
        self.clock = TickClock(self.ticks.read, self.ticks.difference, 1)
        self._dial = dial

    def pause(self, milliseconds):
        self.ticks.at += milliseconds

    def dial(self, transport, mqtt, wifi):
        return self._dial()

    def sources(self):
        return [("kernel", os.urandom, 64, 256)]

    def unique_id(self):
        return b"year"

    def woke_from_sleep(self):
        return False

    def led(self, on):
        pass

    start_watchdog = feed_for = led

    def feed(self):
        pass

    hang_up = feed


def main():
    with open(sys.argv[1] + "/config.example.json") as file:
        bundle = config.json.load(file)
    bundle["profile"].update({"quota": 100000, "period": 60, "width": 48})
    bundle["sensors"] = {
        each["name"]: {"kind": "trace", "values": [0.25, 0.5]} for each in bundle["profile"]["attributes"]
    }
    bundle.update({"outbox": 100, "interval_s": 60, "board": "host"})
    settings = config.Config(bundle)
    core, files = peel_load.load(), Files()
    state = {"reports": 0}

    def dial():
        if state["reports"] % AWAY_EVERY >= AWAY_EVERY - AWAY:
            raise OSError(111, "away")
        return BrokerWire(core, settings.receipt_key.reveal(), settings.device)

    board = Board(dial)
    device = app.App(settings, core, board, files, "peel")
    device.start()
    wanted = int(sys.argv[4])
    gc.threshold(16384)
    last = device.ledger.next_number
    for part in range(1, PARTS + 1):
        while state["reports"] < wanted * part // PARTS:
            device.step()
            number = device.ledger.next_number
            if number != last:
                state["reports"] += number - last
                last = number
                if state["reports"] % AWAY_EVERY == AWAY_EVERY - AWAY:
                    device.link._fail(OSError(104, "cut"))
        gc.collect()
        free = gc.mem_free()
        print("part", state["reports"], free, largest_free(), files.writes, device.outbox.dropped, device.link.faults)
    print("time", board.clock.now(), "wraps", board.ticks.at // TICKS, "left", len(device.outbox))


main()
