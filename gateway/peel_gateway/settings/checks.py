# SPDX-License-Identifier: MIT
"""What settings must fulfil together, beyond the bounds that the table has for each."""

from __future__ import annotations

import ipaddress
import os
import re
import urllib.parse

from peel_gateway.settings.table import Settings

__all__ = ["SECRET_FILES", "SettingsError", "check_store", "check_together", "dotted"]

_PREFIX = re.compile(r"[\w.-]+(/[\w.-]+)*", re.ASCII)
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

SECRET_FILES = (
    ("mqtt_password", "mqtt_password_file"),
    ("http_token", "http_token_file"),
    ("webhook_token", "webhook_token_file"),
)
"""Secrets, each with the setting that names a file to read it from."""


class SettingsError(Exception):
    """A setting that cannot be used; the message names the key, where it came from and what would be right."""


def check_together(settings: Settings) -> None:
    """Refuse settings of which each is right and which do not go together."""
    _check_secrets(settings)
    _check_mqtt(settings)
    check_store(settings)
    _check_publishing(settings)
    _check_webhook(settings.webhook_url)
    _check_proxy(settings.http_proxy)


def _check_secrets(settings: Settings) -> None:
    for secret, file in SECRET_FILES:
        if getattr(settings, secret) is not None and getattr(settings, file) is not None:
            raise SettingsError(f"{dotted(secret)} and {dotted(file)}: give one of them, not both")


def _check_mqtt(settings: Settings) -> None:
    for one, other in (("mqtt_certificate", "mqtt_key"), ("mqtt_key", "mqtt_certificate")):
        if getattr(settings, one) is not None and getattr(settings, other) is None:
            raise SettingsError(f"{dotted(one)}: needs {dotted(other)} too")
    if not settings.mqtt_tls and (settings.mqtt_ca or settings.mqtt_certificate):
        raise SettingsError("mqtt.tls: is false, yet mqtt.ca or mqtt.certificate is set; set mqtt.tls = true")
    for field in ("mqtt_ca", "mqtt_certificate", "mqtt_key"):
        path = getattr(settings, field)
        if path is not None and not os.access(path, os.R_OK):
            raise SettingsError(f"{dotted(field)}: cannot read {path}")
    if not settings.mqtt_host:
        raise SettingsError("mqtt.host: is empty; name the broker")
    if not _NAME.fullmatch(settings.gateway_name):
        whence = "" if settings.mqtt_name else " (from mqtt.client_id)"
        raise SettingsError(
            f"mqtt.name: {settings.gateway_name!r}{whence} cannot be part of a topic; give a name of up to 64 letters, digits, "
            "'-', '_' and '.'"
        )


def check_store(settings: Settings) -> None:
    """Refuse a store that cannot be one; for one that a command line names, too."""
    if settings.store_url is not None and not settings.store_url.reveal().startswith(
        (b"postgresql://", b"postgres://")
    ):
        raise SettingsError("store.url: must begin with postgresql://; for an SQLite file set store.path")
    if settings.store_partitions & (settings.store_partitions - 1):
        raise SettingsError(f"store.partitions: must be a power of two, not {settings.store_partitions}")
    if not _SCHEMA.fullmatch(settings.store_schema):
        raise SettingsError(
            f"store.schema: must be a name of up to 40 lower-case letters, digits and '_', not {settings.store_schema!r}"
        )


def _check_publishing(settings: Settings) -> None:
    if settings.publish_homeassistant and not settings.publish_seconds:
        raise SettingsError("publish.homeassistant: needs publish.seconds, since what it announces is published then")
    if not _PREFIX.fullmatch(settings.publish_prefix):
        raise SettingsError(f"publish.prefix: {settings.publish_prefix!r} is no topic; usually it is homeassistant")


def _check_webhook(url: str) -> None:
    """A call says which device was exposed, and carries a token: not in the clear over a network."""
    if not url:
        return
    parts = urllib.parse.urlsplit(url)
    if not parts.hostname or parts.username or parts.scheme not in ("https", "http"):
        raise SettingsError("webhook.url: must be an address such as https://example.org/hook, without a user name")
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise SettingsError(f"webhook.url: {parts.hostname} is another machine: use https")


def _check_proxy(proxy: str) -> None:
    try:
        ipaddress.ip_network(proxy or "127.0.0.1")
    except ValueError as error:
        raise SettingsError(
            f"http.proxy: {error}; give the proxy's address, such as 127.0.0.1, or its network, such as 10.0.0.0/8"
        ) from None


def dotted(field: str) -> str:
    """The setting that a field of `Settings` is: `mqtt_host` is `mqtt.host`."""
    return field.replace("_", ".", 1)
