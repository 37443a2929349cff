# SPDX-License-Identifier: MIT
"""Logins at the broker, one per device and one for the gateway, so that an ACL can confine each to its topics."""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64encode
from collections.abc import Iterator

from peel_gateway.fleet.registry import ACTIVE, Device, Fleet

__all__ = ["GATEWAY_USER", "OWN_LOGIN", "device_password", "gateway_password", "password_lines"]

GATEWAY_USER = "gateway"
"""The gateway's user name at the broker, as the sample ACL has it; no device id looks like it."""

OWN_LOGIN = "own"
"""What a template says under `mqtt.login` to give each device its own: its id, and a password that follows from the master key."""

_PASSWORD_BYTES = 16
_ROUNDS = 101
_SALT_BYTES = 12


def device_password(master: bytes, fleet: str, device: Device) -> str:
    """Derive a device's password at the broker: independent of its keys, and of every other device's password.

    The salt of its first bundle is part of it. The password stays the same with later bundles. Another device that gets the same id from a
    restored registry has another password.
    """
    return _password(master, f"{fleet}/{device.label}".encode() + device.bundles[0].salt)


def gateway_password(fleet: Fleet) -> str:
    """Derive the password of the user `gateway` at the broker."""
    return _password(fleet.master().reveal(), f"{fleet.name}/{GATEWAY_USER}".encode())


def _password(master: bytes, whose: bytes) -> str:
    return hashlib.blake2b(whose, key=master, digest_size=_PASSWORD_BYTES, person=b"peel mqtt login").hexdigest()


def password_lines(fleet: Fleet) -> Iterator[str]:
    """Yield the lines of mosquitto's password file: the gateway, and all devices that have a bundle and are not revoked."""
    yield f"{GATEWAY_USER}:{_hashed(gateway_password(fleet))}"
    master = fleet.master().reveal()
    for device in fleet.devices():
        if device.state == ACTIVE and device.bundles:
            yield f"{device.label}:{_hashed(device_password(master, fleet.name, device))}"


def _hashed(password: str) -> str:
    """As `mosquitto_passwd` does: PBKDF2 with SHA-512. Few rounds will do for 128 random bits."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return f"$7${_ROUNDS}${b64encode(salt).decode()}${b64encode(digest).decode()}"
