# SPDX-License-Identifier: MIT
"""TCP, optionally with TLS, as a wire.

The watchdog of an RP2040 fires after 8.3 s, so nothing here may block for long. Connecting is polled and feeds the
watchdog. The transport runs the TLS handshake in small steps. Only a name lookup cannot be split: a timer feeds the
watchdog meanwhile, for a bounded time.
"""

import errno
import select
import socket

from peel_device.errors import BoardError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from peel_device.config import Mqtt
    from peel_device.interfaces import Board

CONNECT_MS = 10000
NAME_MS = 20000  # two name servers, asked four times each
_POLL_MS = 100
_UNDER_WAY = (errno.EINPROGRESS, errno.EALREADY, errno.EAGAIN)
_NOT_YET = (errno.EAGAIN, errno.ETIMEDOUT)
_TLS_NOT_YET = (2, 3)  # SSL_ERROR_WANT_READ and _WANT_WRITE in CPython; MicroPython uses EAGAIN


class SocketWire:
    """A connected, non-blocking socket."""

    def __init__(self, sock: "Any", tls: bool, distrust: "Callable[[], None]") -> None:
        sock.setblocking(False)
        self._sock = sock
        self._distrust = distrust
        # A TLS socket of MicroPython is a stream: it may have only read and write.
        self._receive = sock.recv if hasattr(sock, "recv") else sock.read
        self._send = sock.send if hasattr(sock, "send") else sock.write
        self._not_yet = _NOT_YET + _TLS_NOT_YET if tls else _NOT_YET

    def receive(self, limit: int) -> bytes | None:
        """Return some bytes, None if there are none yet, b"" if closed."""
        try:
            data: bytes | None = self._receive(limit)
        except OSError as error:
            if error.errno in self._not_yet:
                return None
            raise
        except ValueError as error:
            raise self._distrusted(error) from None
        return data

    def send(self, data: "bytes | memoryview") -> int:
        """Send some bytes and return how many were taken."""
        try:
            return self._send(data) or 0
        except OSError as error:
            if error.errno in self._not_yet:
                return 0
            raise
        except ValueError as error:
            raise self._distrusted(error) from None

    def _distrusted(self, error: ValueError) -> OSError:
        """Turn MicroPython's ValueError for an untrusted certificate into a link fault.

        It must not end the run: otherwise an impostor of the broker could make the device reboot again and again.
        """
        self._distrust()
        return OSError(errno.ECONNABORTED, str(error))

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


def connect(mqtt: "Mqtt", board: "Board", distrust: "Callable[[], None]" = lambda: None) -> SocketWire:
    """Connect to the broker; with TLS, only to one whose certificate the CA has signed.

    The handshake takes place when the first bytes are sent, and a broker that fails it never sees them. `distrust` is
    called if the certificate is refused.
    """
    context = _tls_context(mqtt.ca) if mqtt.tls else None
    address = _look_up(mqtt, board)
    sock: "Any" = socket.socket()
    try:
        sock.setblocking(False)
        _connect(sock, address, board)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=mqtt.host, do_handshake_on_connect=False)
        return SocketWire(sock, mqtt.tls, distrust)
    except Exception:
        sock.close()
        raise


def _look_up(mqtt: "Mqtt", board: "Board") -> "Any":
    board.feed_for(NAME_MS)
    try:
        return socket.getaddrinfo(mqtt.host, mqtt.port, 0, socket.SOCK_STREAM)[0][-1]
    finally:
        board.feed_for(0)


def _connect(sock: "Any", address: "Any", board: "Board") -> None:
    try:
        sock.connect(address)
    except OSError as error:
        if error.errno not in _UNDER_WAY:
            raise
    poller = select.poll()
    poller.register(sock, select.POLLOUT)
    deadline = board.clock.now() + CONNECT_MS
    while True:
        board.feed()
        events = poller.poll(_POLL_MS)
        if events and events[0][1] & (select.POLLERR | select.POLLHUP):
            raise OSError(errno.ECONNREFUSED, "the broker cannot be reached")
        if events:
            return
        if board.clock.now() >= deadline:
            raise OSError(errno.ETIMEDOUT, "the broker does not answer")


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
