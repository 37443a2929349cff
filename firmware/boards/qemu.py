# SPDX-License-Identifier: MIT
"""QEMU's mps2-an385 (Cortex-M3).

Its link is UART1, which QEMU connects to a TCP port. It has no network and no sensors. For tests only: its randomness is
the host's, which comes in through UART2 and proves nothing about a device. So this board refuses to run anywhere else.
"""

import sys
import time

import machine

from boards.pins import NoPins
from peel_device.entropy import jitter
from peel_device.errors import BoardError
from peel_device.timing import TickClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.config import Mqtt, Wifi
    from peel_device.interfaces import Source, Wire

UART1, UART2 = 0x40005000, 0x40006000  # CMSDK APB UART
DATA, STATE, CONTROL, DIVIDER = 0x00, 0x04, 0x08, 0x10
TX_FULL, RX_FULL = 1, 2
USER_LEDS = 0x40028000  # FPGAIO
_QUIET_MS = 20
_HOST_POLLS = 100000


class UartWire:
    """UART1 as a wire."""

    def __init__(self) -> None:
        machine.mem32[UART1 + DIVIDER] = 16
        machine.mem32[UART1 + CONTROL] = 3  # transmit and receive
        # QEMU looks for received bytes only after a read. Without one the broker's first answer may never arrive.
        machine.mem32[UART1 + DATA]

    def receive(self, limit: int) -> bytes | None:
        """Return some bytes, or None."""
        data = bytearray()
        while len(data) < limit and machine.mem32[UART1 + STATE] & RX_FULL:
            data.append(machine.mem32[UART1 + DATA] & 0xFF)
        return bytes(data) or None

    def send(self, data: "bytes | memoryview") -> int:
        """Send some bytes and return how many were taken."""
        for sent, byte in enumerate(data):
            if machine.mem32[UART1 + STATE] & TX_FULL:
                return sent
            machine.mem32[UART1 + DATA] = byte
        return len(data)

    def close(self) -> None:
        """Do nothing: a UART has no connection to close."""


class Board(NoPins):
    """The emulated board."""

    name = "qemu"

    def __init__(self) -> None:
        if sys.platform != "qemu":
            raise BoardError(
                "board: qemu runs only in QEMU, whose host gives randomness: set `board` to the board in use"
            )
        self.clock = TickClock(time.ticks_ms, time.ticks_diff, 1)

    def sources(self) -> "list[Source]":
        """Return the entropy sources: the host's randomness in place of a real board's, and timing against the host's clock."""
        return [
            ("emulator's host (test)", _host_bytes, 64, 128),
            ("timing", lambda count: jitter(time.ticks_cpu, count), 64, 16),
        ]

    def unique_id(self) -> bytes:
        """Return the same id everywhere; the seed and the report number tell these boards apart."""
        return b"mps2-an385"

    def led(self, on: bool) -> None:
        """Switch the first of the board's two user LEDs."""
        machine.mem32[USER_LEDS] = on

    def start_watchdog(self, sleep: str) -> None:
        """Do nothing: the process that runs QEMU sees it stop."""

    def feed(self) -> None:
        """Do nothing: there is no watchdog."""

    def feed_for(self, milliseconds: int) -> None:
        """Do nothing: there is no watchdog."""

    def pause(self, milliseconds: int) -> None:
        """Wait."""
        time.sleep_ms(milliseconds)

    def light_sleep(self, milliseconds: int) -> None:
        """Wait: this machine has no sleep that keeps its timer."""
        self.pause(milliseconds)

    def deep_sleep(self, milliseconds: int) -> None:
        """Wait, then reboot."""
        self.pause(milliseconds)
        machine.reset()

    def woke_from_sleep(self) -> bool:
        """Return False: the machine does not know why it booted, so no sleep is credited."""
        return False

    def reset(self) -> None:
        """Reboot."""
        machine.reset()

    def dial(self, transport: str, mqtt: "Mqtt", wifi: "Wifi | None") -> "Wire":
        """Open the link and discard bytes of a former session."""
        if transport != "uart":
            raise BoardError("transport: this board's link is uart")
        wire = UartWire()
        while wire.receive(256):
            self.pause(_QUIET_MS)
        return wire

    def hang_up(self) -> None:
        """Do nothing: there is no radio."""


def _host_bytes(count: int) -> bytes:
    """Return bytes that QEMU sends through UART2. If nothing is connected there are too few, which the check refuses."""
    machine.mem32[UART2 + DIVIDER] = 16
    machine.mem32[UART2 + CONTROL] = 2  # receive
    machine.mem32[UART2 + DATA]  # QEMU looks for received bytes only after a read
    data = bytearray()
    for _ in range(_HOST_POLLS):
        if machine.mem32[UART2 + STATE] & RX_FULL:
            data.append(machine.mem32[UART2 + DATA] & 0xFF)
        if len(data) == count:
            break
    return bytes(data)
