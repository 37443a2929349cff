# SPDX-License-Identifier: MIT
"""Raspberry Pi Pico W (RP2040 with a CYW43439 radio)."""

import machine

from boards import pico
from peel_device import wifi as wifi_link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.config import Mqtt, Wifi
    from peel_device.interfaces import Wire


class Board(pico.Board):
    """The Pico W."""

    name = "pico_w"

    def __init__(self) -> None:
        super().__init__()
        self._station: "wifi_link.Station | None" = None

    def _status_pin(self) -> "machine.Pin":
        return machine.Pin("LED", machine.Pin.OUT)  # behind the radio chip

    def dial(self, transport: str, mqtt: "Mqtt", wifi: "Wifi | None") -> "Wire":
        """Join the network and connect to the broker, or open the UART."""
        if transport == "uart":
            return super().dial(transport, mqtt, wifi)
        if self._station is None:
            self._station = wifi_link.Station()
        return wifi_link.dial(self._station, mqtt, wifi, self)

    def hang_up(self) -> None:
        """Switch the radio off; an active radio would end light sleep at once."""
        if self._station is not None:
            self._station.off()
            self._station = None
