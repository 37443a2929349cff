# SPDX-License-Identifier: MIT
"""Read and check the gateway's settings. The environment overrides the file, the file overrides the defaults."""

from __future__ import annotations

import codecs
import dataclasses
import difflib
import ipaddress
import os
import re
import shlex
import stat
import tomllib
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from peel_core import Secret
from peel_gateway.settings.alerts import parse_alerts
from peel_gateway.settings.table import ENVIRONMENT_PREFIX, Setting, Settings, settings_table

__all__ = [
    "SECRET_FILES",
    "SettingsError",
    "check_store",
    "check_together",
    "config_option",
    "dotted",
    "find_config",
    "find_settings",
    "load_settings",
    "pasteable",
    "with_store",
    "without_password",
]

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
    """An invalid setting; the message names the key, its source and the remedy."""


def check_together(settings: Settings) -> None:
    """Raise SettingsError for settings that contradict each other."""
    _check_secrets(settings)
    _check_mqtt(settings)
    check_store(settings)
    _check_publishing(settings)
    _check_webhook(settings.webhook_url)
    _check_proxy(settings.http_proxy)


def _check_secrets(settings: Settings) -> None:
    for secret, file in SECRET_FILES:
        if getattr(settings, secret) is not None and getattr(settings, file) is not None:
            raise SettingsError(f"{dotted(secret)} and {dotted(file)}: both are set. Remove one of them.")


def _check_mqtt(settings: Settings) -> None:
    for one, other in (("mqtt_certificate", "mqtt_key"), ("mqtt_key", "mqtt_certificate")):
        if getattr(settings, one) is not None and getattr(settings, other) is None:
            raise SettingsError(f"{dotted(one)}: is set without {dotted(other)}. Set both or neither.")
    if not settings.mqtt_tls and (settings.mqtt_ca or settings.mqtt_certificate):
        raise SettingsError("mqtt.tls: is false, but mqtt.ca or mqtt.certificate is set. Set mqtt.tls = true.")
    for field in ("mqtt_ca", "mqtt_certificate", "mqtt_key"):
        path = getattr(settings, field)
        if path is not None and not os.access(path, os.R_OK):
            raise SettingsError(f"{dotted(field)}: cannot read {path}")
    if not settings.mqtt_host:
        raise SettingsError("mqtt.host: is empty. Set the broker's name or address.")
    if not _NAME.fullmatch(settings.gateway_name):
        whence = "" if settings.mqtt_name else " (from mqtt.client_id)"
        raise SettingsError(
            f"mqtt.name: {settings.gateway_name!r}{whence} cannot be part of a topic; give a name of up to 64 letters, digits, "
            "'-', '_' and '.'"
        )


def check_store(settings: Settings) -> None:
    """Raise SettingsError for an invalid store, from the settings or a command line."""
    if settings.store_url is not None and not settings.store_url.reveal().startswith(
        (b"postgresql://", b"postgres://")
    ):
        raise SettingsError("store.url: must begin with postgresql://. For an SQLite file set store.path.")
    if settings.store_partitions & (settings.store_partitions - 1):
        raise SettingsError(f"store.partitions: must be a power of two, not {settings.store_partitions}")
    if not _SCHEMA.fullmatch(settings.store_schema):
        raise SettingsError(
            f"store.schema: must be a name of up to 40 lower-case letters, digits and '_', not {settings.store_schema!r}"
        )


def _check_publishing(settings: Settings) -> None:
    if settings.publish_homeassistant and not settings.publish_seconds:
        raise SettingsError(
            "publish.homeassistant: announces published estimates, but publish.seconds is 0. Set publish.seconds, such as 60."
        )
    if settings.alerts and not settings.publish_seconds:
        raise SettingsError(
            "alert: alerts are evaluated when estimates are published, but publish.seconds is 0. Set publish.seconds, such as 60."
        )
    if not _PREFIX.fullmatch(settings.publish_prefix):
        raise SettingsError(
            f"publish.prefix: {settings.publish_prefix!r} is not a valid topic. The default is homeassistant."
        )


def _check_webhook(url: str) -> None:
    """Raise SettingsError for a bad URL, and for plain http to another machine: calls carry a token and name devices."""
    if not url:
        return
    parts = urllib.parse.urlsplit(url)
    if not parts.hostname or parts.username or parts.scheme not in ("https", "http"):
        raise SettingsError("webhook.url: must be an address such as https://example.org/hook, without a user name")
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        raise SettingsError(
            f"webhook.url: {parts.hostname} is another machine, and http would send the token unencrypted. Use https."
        )


def _check_proxy(proxy: str) -> None:
    try:
        ipaddress.ip_network(proxy or "127.0.0.1")
    except ValueError as error:
        raise SettingsError(
            f"http.proxy: {error}; give the proxy's address, such as 127.0.0.1, or its network, such as 10.0.0.0/8"
        ) from None


def dotted(field: str) -> str:
    """Return the setting of a field of `Settings`: `mqtt_host` is `mqtt.host`."""
    return field.replace("_", ".", 1)


def load_settings(path: Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Read the file (if any) and the environment, and check every value."""
    environment = os.environ if environment is None else environment
    values: dict[str, object] = {}
    if path is not None:
        values |= _default_paths(path.parent) | _from_file(path)
    values |= _from_environment(environment)
    settings = Settings(**values)  # type: ignore[arg-type]  # each value was parsed by its row of the table
    check_together(settings)
    return _with_secret_files(settings)


def _default_paths(base: Path) -> dict[str, object]:
    """Return the default paths, relative to the folder of a settings file, as the paths in it are."""
    return {row.field: base / row.default for row in settings_table() if isinstance(row.default, Path)}


def _from_file(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            document = tomllib.loads(file.read().decode("utf-8-sig"))  # some editors write a byte order mark
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file. `peel gateway settings --sample` prints a sample.") from None
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from None
    rows = {row.name: row for row in settings_table()}
    values: dict[str, object] = {}
    try:
        values["alerts"] = parse_alerts(document.pop("alert", []))
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None
    for name, raw in _flatten(document, path).items():
        if name not in rows:
            raise SettingsError(f"{path}: {name}: unknown setting{_suggestion(name, list(rows))}")
        row = rows[name]
        if row.secret and raw != "" and mode & 0o077:
            raise SettingsError(f"{path}: holds {name} but others can read it (mode {mode:04o}); run chmod 600 {path}")
        values[row.field] = _parse(row, raw, f"{path}: {name}", base=path.parent)
    return values


def _flatten(document: Mapping[str, object], path: Path) -> dict[str, object]:
    sections = sorted({"alert", *(row.section for row in settings_table())})
    flat: dict[str, object] = {}
    for section, content in document.items():
        if section not in sections:
            raise SettingsError(f"{path}: [{section}]: unknown section{_suggestion(section, sections)}")
        if not isinstance(content, dict):
            raise SettingsError(f"{path}: {section} must be a section, written [{section}]")
        flat |= {f"{section}.{key}": value for key, value in content.items()}
    return flat


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    rows = {row.variable: row for row in settings_table()}
    values = {}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        if variable not in rows:
            raise SettingsError(f"{variable}: unknown setting{_suggestion(variable, list(rows))}")
        row = rows[variable]
        values[row.field] = _parse(row, _from_text(row, text), variable, base=Path())
    return values


def _from_text(row: Setting, text: str) -> object:
    """Convert the text of an environment variable to the setting's type; leave it as text if that fails."""
    try:
        if row.kind is bool:
            return {"true": True, "false": False}.get(text.lower(), text)
        if row.kind in (int, float):
            return row.kind(text)
    except ValueError:
        return text
    return text


def _parse(row: Setting, raw: object, where: str, *, base: Path) -> object:
    if row.kind in (int, float):
        return _number(row, raw, where)
    if row.kind is bool:
        if not isinstance(raw, bool):
            raise SettingsError(f"{where}: must be true or false, not {_shown(row, raw)}")
        return raw
    if not isinstance(raw, str):
        raise SettingsError(f"{where}: must be text, not {_shown(row, raw)}")
    if row.choices and raw not in row.choices:
        raise SettingsError(f"{where}: must be one of {', '.join(row.choices)}, not {raw!r}")
    if row.optional and not raw:
        return None
    if row.kind is Secret:
        return Secret(raw.encode())
    return base / raw if row.kind is Path else raw


def _number(row: Setting, raw: object, where: str) -> object:
    right = isinstance(raw, int) if row.kind is int else isinstance(raw, int | float)
    if not right or isinstance(raw, bool):
        raise SettingsError(f"{where}: must be {'a whole number' if row.kind is int else 'a number'}, not {raw!r}")
    number = row.kind(raw)
    low, high = row.minimum, row.maximum
    if not (low is None or number >= low) or not (high is None or number <= high):  # written so that nan fails
        raise SettingsError(f"{where}: must be between {low:,.15g} and {high:,.15g}, not {raw!r}")
    return number


def _shown(row: Setting, raw: object) -> str:
    return f"a {type(raw).__name__}" if row.secret else repr(raw)


def _suggestion(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"


def with_store(settings: Settings, store: str | None) -> Settings:
    """Return the settings with another store, a URL or a path from a command line; None changes nothing."""
    if store is None:
        return settings
    if "://" not in store:
        return dataclasses.replace(settings, store_url=None, store_path=Path(store))
    if _has_password(store):
        raise SettingsError(
            "store: contains a password, and every user of this machine can read command lines. Put it into store.url "
            "(the environment, or a file of mode 0600), a password file (PGPASSFILE) or a service file."
        )
    changed = dataclasses.replace(settings, store_url=Secret(store.encode()))
    check_store(changed)
    return changed


_PASSWORDS = {"password", "sslpassword"}


def _has_password(url: str) -> bool:
    parts = urllib.parse.urlsplit(url)
    return parts.password is not None or not _PASSWORDS.isdisjoint(urllib.parse.parse_qs(parts.query))


def without_password(url: str) -> str:
    """Return the address of a database without its passwords, for messages."""
    parts = urllib.parse.urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    query = [pair for pair in urllib.parse.parse_qsl(parts.query) if pair[0] not in _PASSWORDS]
    netloc = f"{user.partition(':')[0]}{at}{host}"
    return parts._replace(netloc=netloc, query=urllib.parse.urlencode(query, safe="/")).geturl()


def _with_secret_files(settings: Settings) -> Settings:
    found: dict[str, Any] = {}
    for secret, file in SECRET_FILES:
        path = getattr(settings, file)
        if path is not None:
            found[secret] = _read_secret(path, dotted(file))
    return dataclasses.replace(settings, **found)


def _read_secret(path: Path, name: str) -> Secret:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(4096).removeprefix(codecs.BOM_UTF8).strip()
    except OSError as error:
        raise SettingsError(f"{name}: cannot read {path}: {error.strerror}") from None
    if mode & 0o077:
        raise SettingsError(f"{name}: {path} can be read by others (mode {mode:04o}); run chmod 600 {path}")
    if not text:
        raise SettingsError(f"{name}: {path} is empty. Write the secret into it.")
    return Secret(text)


_DEFAULT_CONFIG = Path("gateway.toml")

config_option = click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Settings file; by default gateway.toml in this folder, if it exists. Environment variables override it.",
)


def find_config(config: Path | None) -> Path | None:
    """Return the named settings file, or gateway.toml in this folder, if it exists."""
    return config or (_DEFAULT_CONFIG if _DEFAULT_CONFIG.exists() else None)


def find_settings(config: Path | None) -> Settings:
    """Return the settings of the named file, or of gateway.toml in this folder, or the defaults.

    Until the command ends, `pasteable` names the same file and fleet folder.
    """
    settings = load_settings(find_config(config))
    if context := click.get_current_context(silent=True):
        context.call_on_close(_used.clear)
        _used.update({"fleet": settings.fleet_folder.absolute()} | ({"config": config.absolute()} if config else {}))
    return settings


_used: dict[str, Path] = {}
"""The settings file that the running command was given, and its fleet folder."""

_COMMAND = re.compile(
    r"peel (?P<gateway>gateway (?!settings\b)[a-z]+)(?! --config)|peel (?P<fleet>fleet (?!init\b)[a-z-]+) FOLDER\b"
)

_TAKES_CONFIG = ("fleet accept-restored", "fleet add", "fleet bundle", "fleet list")


def pasteable(text: str) -> str:
    """Return a message whose `peel` commands can be typed in any folder: they name this command's settings file and fleet folder."""
    return _COMMAND.sub(_name_files, text)


def _name_files(found: re.Match[str]) -> str:
    words = ["peel", *(found["gateway"] or found["fleet"]).split()]
    if found["fleet"]:
        words.append(str(_used.get("fleet", "FOLDER")))
    if "config" in _used and (found["gateway"] or found["fleet"] in _TAKES_CONFIG):
        words += ["--config", str(_used["config"])]
    return shlex.join(words)
