"""Raspberry Pi Pico W (RP2040 with a CYW43439 radio)."""

import machine

from boards import pico
from peel_device import tcp
from peel_device.errors import BoardError
from peel_device.wifi import Station, set_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.config import Mqtt, Wifi
    from peel_device.interfaces import Wire


class Board(pico.Board):
    """The Pico W."""

    name = "pico_w"

    def __init__(self) -> None:
        super().__init__()
        self._station: "Station | None" = None

    def _status_pin(self) -> "machine.Pin":
        return machine.Pin("LED", machine.Pin.OUT)  # behind the radio chip

    def dial(self, transport: str, mqtt: "Mqtt", wifi: "Wifi | None") -> "Wire":
        """Join the network and connect to the broker, or open the UART."""
        if transport == "uart":
            return super().dial(transport, mqtt, wifi)
        if wifi is None:
            raise BoardError("wifi: is missing from the bundle")
        if self._station is None:
            self._station = Station()
        self._station.join(wifi, self)
        if mqtt.tls:
            set_clock(self)
        return tcp.connect(mqtt, self)

    def hang_up(self) -> None:
        """Switch the radio off; an active radio would end light sleep at once."""
        if self._station is not None:
            self._station.off()
            self._station = None
