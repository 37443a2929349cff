# SPDX-License-Identifier: MIT
"""ESP32 (and S2, S3, C3) with Wi-Fi."""

import os
import time

import esp32
import machine

from boards.pins import Pins
from peel_device import wifi as wifi_link
from peel_device.entropy import jitter
from peel_device.errors import BoardError
from peel_device.timing import TickClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.config import Mqtt, Wifi
    from peel_device.interfaces import Source, Wire

WATCHDOG_MS = 30000
LIGHT_SLEEP_MAX_MS = 86400000  # the tick counter wraps after 12.4 days and must be read within half of that
LED_PIN = 2


class Board(Pins):
    """An ESP32 module with its LED on GPIO 2."""

    name = "esp32"

    def __init__(self) -> None:
        self.clock = TickClock(time.ticks_ms, time.ticks_diff, 1)
        self._led = machine.Pin(LED_PIN, machine.Pin.OUT)
        self._watchdog: "machine.WDT | None" = None
        self._station: "wifi_link.Station | None" = None

    def sources(self) -> "list[Source]":
        """Return the entropy sources. The hardware generator is true random only while the radio runs, so switch that on."""
        wifi_link.Station().power_on()
        return [
            ("os.urandom", os.urandom, 64, 256),
            ("timing", lambda count: jitter(time.ticks_us, count), 64, 16),
        ]

    def unique_id(self) -> bytes:
        """Return the factory MAC address."""
        return machine.unique_id()

    def led(self, on: bool) -> None:
        """Switch the status LED."""
        self._led.value(on)

    def start_watchdog(self, sleep: str) -> None:
        """Start the watchdog, which cannot be stopped. Not with light sleep, which would outlast it."""
        if sleep != "light":
            self._watchdog = machine.WDT(timeout=WATCHDOG_MS)

    def feed(self) -> None:
        """Reset the watchdog's timer."""
        if self._watchdog is not None:
            self._watchdog.feed()

    def feed_for(self, milliseconds: int) -> None:
        """Feed the watchdog once: no call here lasts as long as its timeout."""
        self.feed()

    def pause(self, milliseconds: int) -> None:
        """Wait."""
        time.sleep_ms(milliseconds)

    def light_sleep(self, milliseconds: int) -> None:
        """Sleep with RAM kept, again after an early wake. The clock is read once per turn, so that no time passes unseen."""
        end = self.clock.now() + milliseconds
        while True:
            left = end - self.clock.now()
            if left <= 0:
                return
            machine.lightsleep(min(left, LIGHT_SLEEP_MAX_MS))

    def deep_sleep(self, milliseconds: int) -> None:
        """Sleep, then reboot."""
        machine.deepsleep(milliseconds)

    def woke_from_sleep(self) -> bool:
        """Whether the timer of a deep sleep started this run."""
        return machine.reset_cause() == machine.DEEPSLEEP_RESET

    def reset(self) -> None:
        """Reboot."""
        machine.reset()

    def dial(self, transport: str, mqtt: "Mqtt", wifi: "Wifi | None") -> "Wire":
        """Join the network and connect to the broker."""
        if transport != "wifi":
            raise BoardError("transport: this board's link is wifi")
        if self._station is None:
            self._station = wifi_link.Station()
        return wifi_link.dial(self._station, mqtt, wifi, self)

    def hang_up(self) -> None:
        """Switch the radio off."""
        if self._station is not None:
            self._station.off()
            self._station = None

    def adc(self, pin: int) -> int:
        """Read an analogue input over its full range (about 0 to 3.1 V), 0 to 65535."""
        return machine.ADC(machine.Pin(pin), atten=machine.ADC.ATTN_11DB).read_u16()

    def internal_temperature(self) -> float:
        """Return the chip's temperature in degrees Celsius. The first ESP32 measures in Fahrenheit."""
        if hasattr(esp32, "mcu_temperature"):
            return float(esp32.mcu_temperature())
        return (esp32.raw_temperature() - 32) / 1.8
