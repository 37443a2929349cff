"""TCP, with TLS where asked for, as a wire."""

import errno
import socket

from peel_device.errors import BoardError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from peel_device.config import Mqtt

CONNECT_S = 6  # below the shortest watchdog (8.3 s on the RP2040): connecting cannot feed it
_NOT_YET = (errno.EAGAIN, errno.ETIMEDOUT)
_TLS_NOT_YET = (2, 3)  # SSL_ERROR_WANT_READ and _WANT_WRITE, as CPython reports them; MicroPython says EAGAIN


class SocketWire:
    """A connected socket that no longer blocks."""

    def __init__(self, sock: "Any", tls: bool) -> None:
        sock.setblocking(False)
        self._sock = sock
        # A TLS socket of MicroPython is a stream: it may have only read and write.
        self._receive = sock.recv if hasattr(sock, "recv") else sock.read
        self._send = sock.send if hasattr(sock, "send") else sock.write
        self._not_yet = _NOT_YET + _TLS_NOT_YET if tls else _NOT_YET

    def receive(self, limit: int) -> bytes | None:
        """Some bytes, None for not yet, b"" for closed."""
        try:
            data: bytes | None = self._receive(limit)
        except OSError as error:
            if error.errno in self._not_yet:
                return None
            raise
        return data

    def send(self, data: "bytes | memoryview") -> int:
        """How many bytes were taken."""
        try:
            return self._send(data) or 0
        except OSError as error:
            if error.errno in self._not_yet:
                return 0
            raise

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


def connect(mqtt: "Mqtt") -> SocketWire:
    """Connect to the broker; with TLS, only to one whose certificate the CA vouches for."""
    context = _tls_context(mqtt.ca) if mqtt.tls else None
    address = socket.getaddrinfo(mqtt.host, mqtt.port, 0, socket.SOCK_STREAM)[0][-1]
    sock: "Any" = socket.socket()
    try:
        sock.settimeout(CONNECT_S)
        sock.connect(address)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=mqtt.host)
        return SocketWire(sock, mqtt.tls)
    except Exception:
        sock.close()
        raise


def _tls_context(ca: str) -> "Any":
    try:
        import ssl
    except ImportError:
        raise BoardError(
            "mqtt.tls is on, but this MicroPython was built without TLS: use a build that has it"
        ) from None
    try:
        with open(ca, "rb") as file:
            certificate = file.read()
    except OSError:
        raise BoardError("mqtt.ca: %s is not on the device: copy the CA certificate there, in DER form" % ca) from None
    context: "Any" = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate)
    return context
