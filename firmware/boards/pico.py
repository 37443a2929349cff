# SPDX-License-Identifier: MIT
"""Raspberry Pi Pico (RP2040) and Pico 2 (RP2350), without a network: the link is UART1, GP4 out and GP5 in."""

import os
import sys
import time

import machine

from boards.pins import Pins
from peel_device.entropy import jitter
from peel_device.errors import BoardError
from peel_device.timing import TickClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.config import Mqtt, Wifi
    from peel_device.interfaces import Source, Wire

WATCHDOG_MS = 8300  # the RP2040's counter allows no more than 8388
MEAL_MS = 2000
LIGHT_SLEEP_MAX_MS = 4000000  # machine.lightsleep refuses 2^32 microseconds and more
LINK_UART, LINK_TX, LINK_RX, LINK_BAUD = 1, 4, 5, 115200
TEMPERATURE_CHANNEL = 4
# Per chip: the ring oscillator's random bit, and a watchdog register that keeps its value over a reset but not a power cut.
REGISTERS = {"RP2040": (0x4006001C, 0x4005800C), "RP2350": (0x400E8020, 0x400D800C)}
SLEPT = 0x51EEB7
_QUIET_MS = 50


class UartWire:
    """A UART as a wire: the other end forwards the bytes to the broker."""

    def __init__(self, uart: "machine.UART") -> None:
        self._uart = uart

    def receive(self, limit: int) -> bytes | None:
        """Return some bytes, or None."""
        waiting = self._uart.any()
        return self._uart.read(min(limit, waiting)) if waiting else None

    def send(self, data: "bytes | memoryview") -> int:
        """Send some bytes and return how many were taken."""
        return self._uart.write(data) or 0

    def close(self) -> None:
        """Do nothing: a UART has no connection to close."""

    def drop_stale(self) -> None:
        """Discard bytes of a former session."""
        while self._uart.any():
            self._uart.read()
            time.sleep_ms(_QUIET_MS)


class Board(Pins):
    """The Pico."""

    name = "pico"

    def __init__(self) -> None:
        self._random_bit, self._scratch = _registers(sys.implementation._machine)
        self.clock = TickClock(time.ticks_ms, time.ticks_diff, 1)
        self._led = self._status_pin()
        self._watchdog: "machine.WDT | None" = None
        self._feeder: "machine.Timer | None" = None
        self._meals = 0
        self._uart: "machine.UART | None" = None

    def _status_pin(self) -> "machine.Pin":
        return machine.Pin(25, machine.Pin.OUT)

    def sources(self) -> "list[Source]":
        """Return the entropy sources: the ring oscillator twice (raw, and through os.urandom), ADC noise, timing.

        None is documented as sufficient alone.
        """
        return [
            ("ring oscillator", self._oscillator_bits, 128, 96),
            ("os.urandom", os.urandom, 32, 32),
            ("adc noise", _adc_noise, 64, 32),
            ("timing", lambda count: jitter(time.ticks_us, count), 64, 16),
        ]

    def unique_id(self) -> bytes:
        """Return the flash chip's serial number."""
        return machine.unique_id()

    def led(self, on: bool) -> None:
        """Switch the status LED."""
        self._led.value(on)

    def start_watchdog(self, sleep: str) -> None:
        """Start the watchdog, only without sleep: it cannot be stopped and would fire during sleep."""
        if sleep == "none":
            self._watchdog = machine.WDT(timeout=WATCHDOG_MS)

    def feed(self) -> None:
        """Reset the watchdog's timer."""
        if self._watchdog is not None:
            self._watchdog.feed()

    def feed_for(self, milliseconds: int) -> None:
        """Let a timer feed the watchdog for at most this long; 0 ends it. A board that hangs is still reset, but later."""
        if self._feeder is not None:
            self._feeder.deinit()
            self._feeder = None
        self.feed()
        if milliseconds and self._watchdog is not None:
            self._meals = milliseconds // MEAL_MS
            self._feeder = machine.Timer(-1, period=MEAL_MS, mode=machine.Timer.PERIODIC, callback=self._meal)

    def _meal(self, timer: "machine.Timer") -> None:
        if self._meals > 0:
            self._meals -= 1
            self.feed()

    def pause(self, milliseconds: int) -> None:
        """Wait."""
        time.sleep_ms(milliseconds)

    def light_sleep(self, milliseconds: int) -> None:
        """Sleep with RAM kept. Any interrupt ends machine.lightsleep early, so sleep again until the time is over."""
        end = self.clock.now() + milliseconds
        while True:
            left = end - self.clock.now()
            if left <= 0:
                return
            machine.lightsleep(min(left, LIGHT_SLEEP_MAX_MS))

    def deep_sleep(self, milliseconds: int) -> None:
        """Sleep, then reboot. This port's deep sleep is a light sleep and a reset; do both here, to mark the wake."""
        self.light_sleep(milliseconds)
        machine.mem32[self._scratch] = SLEPT
        machine.reset()

    def woke_from_sleep(self) -> bool:
        """Whether this run began with the end of a `deep_sleep`, not with a reset during one. The answer is given once."""
        slept = machine.mem32[self._scratch] == SLEPT
        machine.mem32[self._scratch] = 0
        return slept and machine.reset_cause() == machine.WDT_RESET

    def reset(self) -> None:
        """Reboot."""
        machine.reset()

    def dial(self, transport: str, mqtt: "Mqtt", wifi: "Wifi | None") -> "Wire":
        """Open the link."""
        if transport != "uart":
            raise BoardError("transport: this board has no network: set transport to uart in the bundle")
        if self._uart is None:
            self._uart = machine.UART(
                LINK_UART, LINK_BAUD, tx=machine.Pin(LINK_TX), rx=machine.Pin(LINK_RX), timeout=0, rxbuf=1024
            )
        wire = UartWire(self._uart)
        wire.drop_stale()
        return wire

    def hang_up(self) -> None:
        """Do nothing: there is no radio."""

    def _oscillator_bits(self, count: int) -> bytes:
        out = bytearray(count)
        for position in range(count):
            value = 0
            for _ in range(8):
                value = value << 1 | machine.mem32[self._random_bit] & 1
            out[position] = value
        return bytes(out)

    def adc(self, pin: int) -> int:
        """Read an analogue input, 0 to 65535."""
        return machine.ADC(machine.Pin(pin)).read_u16()

    def internal_temperature(self) -> float:
        """Return the chip's temperature in degrees Celsius, by the formula of the RP2040 datasheet (section 4.9.5)."""
        volts = machine.ADC(TEMPERATURE_CHANNEL).read_u16() * 3.3 / 65535
        return 27 - (volts - 0.706) / 0.001721


def _registers(chip: str) -> "tuple[int, int]":
    for name in REGISTERS:
        if name in chip:
            return REGISTERS[name]
    raise BoardError(
        "board: this chip is neither an RP2040 nor an RP2350: set `board` in the bundle to the board in use"
    )


def _adc_noise(count: int) -> bytes:
    """Return the low bits of the converter, four conversions to a byte.

    read_u16 stretches 12 bits to 16, so bit 4 is the converter's lowest bit.
    """
    channel = machine.ADC(TEMPERATURE_CHANNEL)
    out = bytearray(count)
    for position in range(count):
        value = 0
        for _ in range(4):
            value = value << 2 ^ channel.read_u16() >> 4
        out[position] = value & 0xFF
    return bytes(out)
