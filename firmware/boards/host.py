# SPDX-License-Identifier: MIT
"""A computer with an operating system, for `peel device run`: a folder replaces the flash.

For trying sensors and bundles, and for tests. Its randomness comes from the kernel. No microcontroller has that, so this
board refuses to run on one.
"""

import os
import sys
import time

from boards.pins import NoPins
from peel_device import tcp
from peel_device.entropy import jitter
from peel_device.errors import BoardError
from peel_device.timing import TickClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.config import Mqtt, Wifi
    from peel_device.interfaces import Source, Wire

PLATFORMS = ("linux", "darwin")


class Woken(BaseException):
    """Ends a run: the board wakes from deep sleep and reboots. A BaseException, so that no handler takes it for a fault."""


class Board(NoPins):
    """This computer."""

    name = "host"
    _woken = False

    def __init__(self) -> None:
        if sys.platform not in PLATFORMS:
            raise BoardError("board: host runs only on Linux and macOS: set `board` in the bundle to the board in use")
        self.clock = TickClock(time.ticks_ms, time.ticks_diff, 1)

    def sources(self) -> "list[Source]":
        """Return the entropy sources: the kernel and timing."""
        return [
            ("kernel of the host", os.urandom, 64, 256),
            ("timing", lambda count: jitter(time.ticks_us, count), 64, 16),
        ]

    def unique_id(self) -> bytes:
        """Return the same id everywhere; the seed and the report number tell hosts apart."""
        return b"host"

    def led(self, on: bool) -> None:
        """Do nothing: there is no LED."""

    def start_watchdog(self, sleep: str) -> None:
        """Do nothing: the parent process sees this one stop."""

    def feed(self) -> None:
        """Do nothing: there is no watchdog."""

    def feed_for(self, milliseconds: int) -> None:
        """Do nothing: there is no watchdog."""

    def pause(self, milliseconds: int) -> None:
        """Wait."""
        time.sleep_ms(milliseconds)

    def light_sleep(self, milliseconds: int) -> None:
        """Wait; the clock goes on."""
        self.pause(milliseconds)

    def deep_sleep(self, milliseconds: int) -> None:
        """Wait, then end the run. The caller starts it again."""
        self.pause(milliseconds)
        Board._woken = True
        raise Woken

    def woke_from_sleep(self) -> bool:
        """Whether this process has slept since its last boot."""
        woken, Board._woken = Board._woken, False
        return woken

    def reset(self) -> None:
        """End the process with status 1: a person has to repair the fault."""
        raise SystemExit(1)

    def dial(self, transport: str, mqtt: "Mqtt", wifi: "Wifi | None") -> "Wire":
        """Connect to the broker over this computer's network."""
        if transport != "wifi":
            raise BoardError("transport: this board's link is the network (wifi)")
        return tcp.connect(mqtt, self)

    def hang_up(self) -> None:
        """Do nothing: there is no radio."""
