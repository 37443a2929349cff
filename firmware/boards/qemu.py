# SPDX-License-Identifier: MIT
"""QEMU's mps2-an385 (Cortex-M3).

Its link is UART1, which QEMU connects to a TCP port. There is no network and no sensor. For tests only: its randomness is
the host's, which comes in through UART2 and proves nothing about a device. So this board refuses to run anywhere else.
"""

import sys
import time

import machine

from boards.pins import NoPins
from peel_device.clock import TickClock
from peel_device.entropy import jitter
from peel_device.errors import BoardError

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
        # QEMU looks for bytes to receive after a read; without one the broker's first answer may wait for ever.
        machine.mem32[UART1 + DATA]

    def receive(self, limit: int) -> bytes | None:
        """Some bytes, or None."""
        data = bytearray()
        while len(data) < limit and machine.mem32[UART1 + STATE] & RX_FULL:
            data.append(machine.mem32[UART1 + DATA] & 0xFF)
        return bytes(data) or None

    def send(self, data: "bytes | memoryview") -> int:
        """How many bytes were taken."""
        for sent, byte in enumerate(data):
            if machine.mem32[UART1 + STATE] & TX_FULL:
                return sent
            machine.mem32[UART1 + DATA] = byte
        return len(data)

    def close(self) -> None:
        """A UART has no connection to close."""


class Board(NoPins):
    """The emulated board."""

    name = "qemu"

    def __init__(self) -> None:
        if sys.platform != "qemu":
            raise BoardError("board: qemu takes its randomness from an emulator's host; name the board that this is")
        self.clock = TickClock(time.ticks_ms, time.ticks_diff, 1)

    def sources(self) -> "list[Source]":
        """The host's randomness stands in for what a real board has; and timing against the host's clock."""
        return [
            ("emulator's host (test)", _host_bytes, 64, 128),
            ("timing", lambda count: jitter(time.ticks_cpu, count), 64, 16),
        ]

    def unique_id(self) -> bytes:
        """All of these boards are alike; the seed and the report number tell them apart."""
        return b"mps2-an385"

    def led(self, on: bool) -> None:
        """Switch the first of the board's two user LEDs."""
        machine.mem32[USER_LEDS] = on

    def start_watchdog(self, sleep: str) -> None:
        """QEMU is its own watchdog: whoever runs it sees it stop."""

    def feed(self) -> None:
        """There is no watchdog to feed."""

    def feed_for(self, milliseconds: int) -> None:
        """There is no watchdog to feed."""

    def pause(self, milliseconds: int) -> None:
        """Wait a little."""
        time.sleep_ms(milliseconds)

    def light_sleep(self, milliseconds: int) -> None:
        """This machine has no sleep that keeps its timer."""
        self.pause(milliseconds)

    def deep_sleep(self, milliseconds: int) -> None:
        """Wait, then boot."""
        self.pause(milliseconds)
        machine.reset()

    def woke_from_sleep(self) -> bool:
        """The machine does not know why it booted, so no sleep is ever credited."""
        return False

    def reset(self) -> None:
        """Boot again."""
        machine.reset()

    def dial(self, transport: str, mqtt: "Mqtt", wifi: "Wifi | None") -> "Wire":
        """Open the link and throw away what belongs to a former session."""
        if transport != "uart":
            raise BoardError("transport: this board's link is uart")
        wire = UartWire()
        while wire.receive(256):
            self.pause(_QUIET_MS)
        return wire

    def hang_up(self) -> None:
        """There is no radio to switch off."""


def _host_bytes(count: int) -> bytes:
    """What QEMU sends through UART2; less than was asked for, which the check then refuses, where nothing is connected."""
    machine.mem32[UART2 + DIVIDER] = 16
    machine.mem32[UART2 + CONTROL] = 2  # receive
    machine.mem32[UART2 + DATA]  # without a read QEMU may never look for bytes to receive
    data = bytearray()
    for _ in range(_HOST_POLLS):
        if machine.mem32[UART2 + STATE] & RX_FULL:
            data.append(machine.mem32[UART2 + DATA] & 0xFF)
        if len(data) == count:
            break
    return bytes(data)
