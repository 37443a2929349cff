# SPDX-License-Identifier: MIT
"""A computer with an operating system, where `peel device run` starts the application: a folder is the flash.

For trying sensors and bundles, and for tests. Its randomness is the kernel's, which no microcontroller has; so this board
refuses to run on one.
"""

import os
import sys
import time

from boards.pins import NoPins
from peel_device import tcp
from peel_device.clock import TickClock
from peel_device.entropy import jitter
from peel_device.errors import BoardError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.config import Mqtt, Wifi
    from peel_device.interfaces import Source, Wire

PLATFORMS = ("linux", "darwin")


class Woken(BaseException):
    """Ends a run: the board has slept deeply and boots again. No Exception, so that nothing takes it for a fault."""


class Board(NoPins):
    """This computer."""

    name = "host"
    _woken = False

    def __init__(self) -> None:
        if sys.platform not in PLATFORMS:
            raise BoardError("board: host is a computer with an operating system; name the board that this is")
        self.clock = TickClock(time.ticks_ms, time.ticks_diff, 1)

    def sources(self) -> "list[Source]":
        """The kernel's randomness, and timing."""
        return [
            ("kernel of the host", os.urandom, 64, 256),
            ("timing", lambda count: jitter(time.ticks_us, count), 64, 16),
        ]

    def unique_id(self) -> bytes:
        """All folders are alike; the seed and the report number tell them apart."""
        return b"host"

    def led(self, on: bool) -> None:
        """There is none."""

    def start_watchdog(self, sleep: str) -> None:
        """Whoever started the process sees it stop."""

    def feed(self) -> None:
        """There is no watchdog to feed."""

    def feed_for(self, milliseconds: int) -> None:
        """There is no watchdog to feed."""

    def pause(self, milliseconds: int) -> None:
        """Wait a little."""
        time.sleep_ms(milliseconds)

    def light_sleep(self, milliseconds: int) -> None:
        """The process waits; its clock goes on."""
        self.pause(milliseconds)

    def deep_sleep(self, milliseconds: int) -> None:
        """Wait, then boot: whoever started the application starts it again."""
        self.pause(milliseconds)
        Board._woken = True
        raise Woken

    def woke_from_sleep(self) -> bool:
        """Whether this process has slept since the last boot; a killed process has not."""
        woken, Board._woken = Board._woken, False
        return woken

    def reset(self) -> None:
        """Stay off: a person has to see to it."""
        raise SystemExit(1)

    def dial(self, transport: str, mqtt: "Mqtt", wifi: "Wifi | None") -> "Wire":
        """Connect to the broker over this computer's network."""
        if transport != "wifi":
            raise BoardError("transport: this board's link is the network (wifi)")
        return tcp.connect(mqtt, self)

    def hang_up(self) -> None:
        """There is no radio to switch off."""
