# SPDX-License-Identifier: MIT
"""Runs on MicroPython's unix port: the part of `ssl` that the application uses, over the interpreter's `tls`.

Boards have `ssl` from micropython-lib. Debian's sources come without that library.
"""

import tls

PROTOCOL_TLS_CLIENT = tls.PROTOCOL_TLS_CLIENT
CERT_REQUIRED = tls.CERT_REQUIRED


class SSLContext:
    """A `tls` context with the keyword arguments of the standard library."""

    def __init__(self, protocol):
        self._context = tls.SSLContext(protocol)
        self.verify_mode = CERT_REQUIRED

    def load_verify_locations(self, cadata):
        self._context.load_verify_locations(cadata)

    def wrap_socket(self, sock, server_hostname, do_handshake_on_connect):
        self._context.verify_mode = self.verify_mode
        return self._context.wrap_socket(
            sock, server_hostname=server_hostname, do_handshake_on_connect=do_handshake_on_connect
        )
