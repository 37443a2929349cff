# SPDX-License-Identifier: MIT
"""Runs on MicroPython's unix port: the whole application, with this computer as its board and real files as its flash.

Usage: micropython unix_device.py FIRMWARE UMQTT BUNDLE STATE. Runs until it is killed.
"""

import sys

sys.path[:0] = sys.argv[1:3]

import os  # noqa: E402
import time  # noqa: E402

import peel_load  # noqa: E402
from peel_device import app, config, tcp  # noqa: E402
from peel_device.clock import TickClock  # noqa: E402
from peel_device.entropy import jitter  # noqa: E402
from peel_device.files import FlashFiles  # noqa: E402


class Board:
    """A computer that runs MicroPython."""

    name = "unix"

    def __init__(self):  # noqa: ANN204
        self.clock = TickClock(time.ticks_ms, time.ticks_diff, 1)

    def sources(self):  # noqa: ANN201
        return [("os.urandom", os.urandom, 64, 256), ("timing", lambda count: jitter(time.ticks_us, count), 64, 16)]

    def unique_id(self):  # noqa: ANN201
        return b"unix"

    def led(self, on):  # noqa: ANN001, ANN201
        pass

    def start_watchdog(self, sleep):  # noqa: ANN001, ANN201
        pass

    def feed(self):  # noqa: ANN201
        pass

    def feed_for(self, milliseconds):  # noqa: ANN001, ANN201
        pass

    def pause(self, milliseconds):  # noqa: ANN001, ANN201
        time.sleep_ms(milliseconds)

    def woke_from_sleep(self):  # noqa: ANN201
        return False

    def dial(self, transport, mqtt, wifi):  # noqa: ANN001, ANN201
        return tcp.connect(mqtt, self)

    def hang_up(self):  # noqa: ANN201
        pass


files = FlashFiles()
device = app.App(config.load(files.read(sys.argv[3])), peel_load.load(), Board(), files, sys.argv[4])
device.start()
print("up")
device.run()
