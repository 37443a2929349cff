# SPDX-License-Identifier: MIT
"""umqtt.simple over a given transport instead of a socket of its own.

umqtt.simple finds its socket through the module-level name `socket`. This module replaces that name with an object
that returns the transport. So the client needs no network module and runs over Wi-Fi, TLS and a UART.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from peel_device.transport import Transport

PACKET_IDS = 65535


class _Dialler:
    """Replaces the socket module in umqtt.simple."""

    def __init__(self) -> None:
        self.transport: "Transport | None" = None

    def socket(self) -> "Transport | None":
        return self.transport

    def getaddrinfo(self, host: str, port: int) -> "list[tuple[str, int]]":
        return [(host, port)]


_dialler = _Dialler()


def _import_umqtt() -> "Any":
    """Import umqtt.simple, also on a MicroPython without sockets."""
    try:
        __import__("usocket")
    except ImportError:
        sys.modules["usocket"] = _dialler  # type: ignore[assignment]  # any object will do for `import usocket`
    simple: "Any" = __import__("umqtt.simple", None, None, ("MQTTClient",))
    simple.socket = _dialler
    return simple


_simple = _import_umqtt()
_MQTTClient: "Any" = _simple.MQTTClient
MQTTException: "Any" = _simple.MQTTException


class Client(_MQTTClient):  # type: ignore[misc]  # umqtt.simple is untyped
    """An MQTT 3.1.1 client over a transport. Every call raises OSError, MQTTException or AssertionError if the link fails."""

    def connect_over(self, transport: "Transport", hear: "Callable[[bytes, bytes], None]") -> None:
        """Connect with a clean session. `hear` is called with the topic and payload of each message."""
        _dialler.transport = transport
        self.set_callback(hear)
        self.pid = 0
        self.connect(True)

    def publish_sure(self, topic: str, payload: bytes, retain: bool = False) -> None:
        """Publish at QoS 1 and wait for the acknowledgement."""
        if self.pid >= PACKET_IDS:
            self.pid = 0  # umqtt.simple would count beyond 16 bits and wait for an id that no packet can carry
        self.publish(topic, payload, retain, 1)
