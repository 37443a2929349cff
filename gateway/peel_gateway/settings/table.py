# SPDX-License-Identifier: MIT
# ruff: noqa: RUF009 - _setting is dataclasses.field with metadata
"""The table of settings, with defaults, bounds and a sentence each, and its text for the sample file, the docs and `--help`.

A field `mqtt_host` of `Settings` is the key `host` in the section `[mqtt]` of gateway.toml and the variable
`PEEL_GATEWAY_MQTT_HOST`.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import Any, get_type_hints

from peel_core import Secret
from peel_gateway.settings.alerts import SAMPLE_ALERT, Alert

__all__ = [
    "ENVIRONMENT_PREFIX",
    "SAMPLE_NAME",
    "Setting",
    "Settings",
    "help_rows",
    "markdown_table",
    "sample_toml",
    "settings_table",
]

ENVIRONMENT_PREFIX = "PEEL_GATEWAY_"


def _setting(
    default: Any,
    help_text: str,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    metadata = {"help": help_text, "minimum": minimum, "maximum": maximum, "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings with their defaults. The order is that of the sample file."""

    fleet_folder: Path = _setting(Path("fleet"), "The fleet folder made by `peel fleet init`: key, devices, profiles.")
    fleet_reload_seconds: float = _setting(
        5.0,
        "Seconds between checks for changed devices and profiles; 0 reloads on SIGHUP only.",
        minimum=0,
        maximum=86400,
    )

    mqtt_host: str = _setting("127.0.0.1", "Name or address of the broker.")
    mqtt_port: int = _setting(1883, "Port of the broker; usually 8883 with TLS.", minimum=1, maximum=65535)
    mqtt_protocol: str = _setting(
        "auto",
        "MQTT version: 5, 3.1.1, or auto, which falls back to 3.1.1 when the broker refuses 5.",
        choices=("auto", "5", "3.1.1"),
    )
    mqtt_client_id: str = _setting(
        "",
        "MQTT client id; empty means peel-gateway-<fleet>. The broker keeps reports for it while the gateway is down.",
    )
    mqtt_name: str = _setting(
        "",
        "The gateway's name in its own topics, peel/v1/<fleet>/gateway/<name>/...; the same for all workers on one database. "
        "Empty means mqtt.client_id, or main if that is empty too.",
    )
    mqtt_user: str = _setting("", "User name for the broker; empty connects anonymously.")
    mqtt_password: Secret | None = _setting(None, "Password for the broker.")
    mqtt_password_file: Path | None = _setting(None, "File that holds the password, instead of mqtt.password.")
    mqtt_tls: bool = _setting(False, "Use TLS and check the broker's certificate and name.")
    mqtt_ca: Path | None = _setting(None, "PEM file with the broker's CA; empty trusts the CAs of the system.")
    mqtt_certificate: Path | None = _setting(None, "PEM file with a client certificate, if the broker requires one.")
    mqtt_key: Path | None = _setting(None, "PEM file with the client certificate's private key.")
    mqtt_keepalive_seconds: int = _setting(30, "Keep-alive interval of the connection.", minimum=5, maximum=3600)
    mqtt_session_days: float = _setting(
        14.0,
        "How long the broker keeps the session and its reports while the gateway is disconnected.",
        minimum=0.01,
        maximum=365,
    )
    mqtt_window: int = _setting(
        16_384,
        "Most unacknowledged messages in the gateway (MQTT 5 receive maximum); bounds the memory. "
        "Twice batch.messages lets the broker send while a batch is stored.",
        minimum=1,
        maximum=65535,
    )
    mqtt_window_bytes: int = _setting(
        67_108_864, "Most unacknowledged bytes of payload in the gateway.", minimum=65_536, maximum=4_294_967_296
    )
    mqtt_packet_bytes: int = _setting(
        1_048_576,
        "Largest accepted message (MQTT 5 maximum packet size); the broker drops larger ones.",
        minimum=1024,
        maximum=268_435_455,
    )
    mqtt_backoff_seconds: float = _setting(
        30.0,
        "Longest pause between two attempts to connect; the first is 0.2 s, and it doubles.",
        minimum=0.2,
        maximum=3600,
    )
    mqtt_receipt_seconds: float = _setting(
        10.0,
        "Least time between two receipts for one device; the first is sent at once. Devices wait half a minute for one.",
        minimum=0,
        maximum=20,
    )

    batch_messages: int = _setting(8192, "Most messages in one transaction.", minimum=1, maximum=65535)
    batch_bytes: int = _setting(
        2_097_152,
        "Most bytes of payload in one transaction; bounds the memory where messages carry many frames.",
        minimum=1024,
        maximum=268_435_456,
    )
    batch_seconds: float = _setting(
        1.0,
        "Longest time a message waits for others to share its transaction. Longer means fewer bytes written per report. "
        "A batch is stored earlier once a burst has ended.",
        minimum=0,
        maximum=60,
    )

    store_path: Path = _setting(
        Path("peel.sqlite"),
        "The SQLite file, created on first start. Claims and dead letters are kept in files beside it.",
    )
    store_url: Secret | None = _setting(
        None,
        "A PostgreSQL database instead of the file, postgresql://user@host/database, for gateways on several machines. "
        "Keep its password in a password file (PGPASSFILE) or a service file.",
    )
    store_schema: str = _setting("peel", "The schema in the PostgreSQL database; each fleet needs its own.")
    store_partitions: int = _setting(
        8,
        "Partitions of a PostgreSQL database, and so its most workers: a power of two, fixed when it is created.",
        minimum=1,
        maximum=64,
    )
    store_bucket_seconds: int = _setting(
        300,
        "Smallest time bucket of the estimates, in seconds; fixed when the database is created.",
        minimum=1,
        maximum=86400,
    )
    store_lock_seconds: float = _setting(
        10.0,
        "How long a commit waits for another process that writes before it fails.",
        minimum=0,
        maximum=600,
    )
    store_retention_days: float = _setting(
        90.0,
        "Age at which reports are deleted from the log, to within a day. Estimates stay, and so do the sums that they are made of. "
        "90 leaves a season to investigate; 0 keeps everything.",
        minimum=0,
        maximum=36500,
    )
    store_fine_days: float = _setting(
        90.0,
        "Age at which sums per bucket and hour are added up to sums per day, which stay. Independent of the log. 0 keeps all of them.",
        minimum=0,
        maximum=36500,
    )

    quarantine_pieces: int = _setting(
        100_000,
        "Most refused pieces kept with their evidence, for each of two classes: a device is blamed, or none is. "
        "The oldest are deleted first.",
        minimum=0,
        maximum=100_000_000,
    )
    quarantine_bytes: int = _setting(
        67_108_864,
        "Most bytes of refused frames kept, for each of the two classes.",
        minimum=0,
        maximum=1_099_511_627_776,
    )

    screen_alpha: float = _setting(
        1e-6,
        "Upper bound on the probability that the statistical tests ever expose a given honest device.",
        minimum=1e-15,
        maximum=0.1,
    )
    screen_residual_limit: float = _setting(
        3e-3, "Largest relative residual of a codeword; honest ones stay below 1e-3.", minimum=1e-6, maximum=0.1
    )
    screen_number_allowance: int = _setting(
        64,
        "Report numbers granted once per device beyond its quota; 1024 more if the time of its bundle is unknown.",
        minimum=0,
        maximum=1_000_000,
    )
    screen_memory_bytes: int = _setting(
        402_653_184,
        "Memory for device states, per partition: 147,000 devices at 16 attributes, 21,000 at 252, 5,600 at 1024. If more are "
        "active, the states unused for longest are dropped and read from the store again, which takes many times as long.",
        minimum=1_048_576,
        maximum=1_099_511_627_776,
    )
    screen_withdraw_faulty: bool = _setting(
        True, "Withdraw a device after one report that only the device can have made wrong; if false, only mark it."
    )
    screen_accept_unsealed: bool = _setting(
        False, "Accept unsealed frames from devices that never sent a sealed one. For the lab and closed networks only."
    )

    estimate_share_cap: float = _setting(
        1.0,
        "Largest share of a mean over reports that one device may have. Devices above it are weighted down, at most until all "
        "devices weigh the same. 1 gives every report equal weight.",
        minimum=0,
        maximum=1,
    )

    publish_seconds: float = _setting(
        60.0,
        "Seconds between estimates that are published over MQTT (retained) and in the metrics; 0 turns this off.",
        minimum=0,
        maximum=86400,
    )
    publish_window: int = _setting(
        3600,
        "Published estimates use the reports of this many seconds up to now. If they are too few, the window is the next of 6 h, "
        "24 h, 7 d and 30 d. Each published estimate names its window.",
        minimum=1,
        maximum=31_536_000,
    )
    publish_homeassistant: bool = _setting(
        False, "Announce estimates, exposures and availability to Home Assistant by MQTT discovery."
    )
    publish_prefix: str = _setting("homeassistant", "Home Assistant's discovery prefix.")

    webhook_url: str = _setting(
        "",
        "URL that gets a POST with JSON when a device is exposed, when many are, and when an alert begins or ends: https, or http "
        "on this machine.",
    )
    webhook_token: Secret | None = _setting(None, "Bearer token of these requests.")
    webhook_token_file: Path | None = _setting(None, "File that holds the token, instead of webhook.token.")
    webhook_seconds: float = _setting(10.0, "Timeout of one attempt.", minimum=0.1, maximum=300)

    http_host: str = _setting("127.0.0.1", "Address to listen on; any but loopback needs http.token.")
    http_port: int = _setting(8420, "Port to listen on; 0 turns HTTP off.", minimum=0, maximum=65535)
    http_token: Secret | None = _setting(None, "Bearer token that clients must send, at least 16 characters.")
    http_token_file: Path | None = _setting(None, "File that holds the token, instead of http.token.")
    http_proxy: str = _setting(
        "",
        "Address or network of the reverse proxy whose X-Forwarded-For and X-Forwarded-Proto are trusted; empty trusts "
        "none.",
    )
    http_streams: int = _setting(32, "Most concurrent /api/events streams.", minimum=1, maximum=10000)

    health_broker_seconds: float = _setting(
        60.0, "How long the broker may be unreachable before /healthz returns 503.", minimum=0, maximum=86400
    )
    health_store_seconds: float = _setting(
        5.0, "How long the database may fail before /healthz returns 503.", minimum=0, maximum=86400
    )
    health_lag_seconds: float = _setting(
        30.0,
        "How long a message may wait to be stored, beyond batch.seconds, or a receipt to be sent, before /healthz returns 503.",
        minimum=0,
        maximum=86400,
    )
    health_silent_seconds: float = _setting(
        300.0,
        "Least time without a message before a device counts as silent; three of its intervals if that is longer.",
        minimum=1,
        maximum=31_536_000,
    )

    worker_name: str = _setting(
        "",
        "This process's name among the workers on one PostgreSQL database; empty means the host name. "
        "Workers on one machine may have the same name.",
    )
    worker_lease_seconds: float = _setting(
        10.0,
        "How long a worker owns a partition without renewing its lease; after that another worker takes it over.",
        minimum=1,
        maximum=600,
    )

    log_level: str = _setting("info", "Lowest level that is logged.", choices=("info", "warning", "error"))
    log_format: str = _setting("text", "text is key=value lines, json is one object a line.", choices=("text", "json"))

    alerts: tuple[Alert, ...] = ()
    """The tables `[[alert]]` of the file. They are not in the table of settings, because they have no variables."""

    @property
    def claims_path(self) -> Path:
        """The file of the devices' claims, beside the database."""
        return self.store_path.with_name(self.store_path.name + ".claims.json")

    @property
    def dead_letters_path(self) -> Path:
        """The folder of messages that the gateway cannot process, beside its database."""
        return self.store_path.with_name(self.store_path.name + ".dead-letters")

    @property
    def gateway_name(self) -> str:
        """The gateway's name in its own topics. It is unique in the fleet, since client ids differ."""
        return self.mqtt_name or self.mqtt_client_id or "main"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row of the table."""

    field: str
    kind: type
    optional: bool
    default: object
    help: str
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]

    @property
    def section(self) -> str:
        return self.field.partition("_")[0]

    @property
    def key(self) -> str:
        return self.field.partition("_")[2]

    @property
    def name(self) -> str:
        """The dotted name: mqtt.host."""
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        """The environment variable."""
        return ENVIRONMENT_PREFIX + self.field.upper()

    @property
    def secret(self) -> bool:
        return self.kind is Secret


def settings_table() -> tuple[Setting, ...]:
    """Return all settings, in the order of the sample."""
    hints = get_type_hints(Settings)
    rows = []
    for item in dataclasses.fields(Settings):
        if not item.metadata:
            continue
        kinds = [kind for kind in getattr(hints[item.name], "__args__", (hints[item.name],)) if kind is not type(None)]
        rows.append(
            Setting(
                field=item.name,
                kind=kinds[0],
                optional=item.default is None,
                default=item.default,
                **item.metadata,
            )
        )
    return tuple(rows)


SAMPLE_NAME = "gateway.sample.toml"

_HEADER = """\
# Peel gateway: every setting with its default.
#
# Uncomment what you change. An environment variable wins over this file: [mqtt] host is PEEL_GATEWAY_MQTT_HOST.
# Paths, defaults included, are relative to the folder of this file. A file that holds a secret must have mode 0600.
# Generated by `peel gateway settings --sample`.
"""


def sample_toml() -> str:
    """Return the commented sample file."""
    lines = [_HEADER]
    for section, rows in groupby(settings_table(), key=lambda row: row.section):
        lines.append(f"[{section}]")
        for row in rows:
            lines += [f"# {line}" for line in wrap(row.help + _bounds(row), 110)]
            lines += [f"# {row.key} = {_toml_value(row)}", ""]
    return "\n".join([*lines, SAMPLE_ALERT])


def markdown_table() -> str:
    """Return the table of settings for the docs."""
    lines = ["| setting | variable | default | what |", "|---|---|---|---|"]
    for row in settings_table():
        default = "(none)" if row.optional else f"`{_toml_value(row)}`"
        lines.append(f"| `{row.name}` | `{row.variable}` | {default} | {row.help}{_bounds(row)} |".replace("<", "&lt;"))
    return "\n".join(lines) + "\n"


def help_rows() -> list[tuple[str, str]]:
    """Return each setting with its sentence and default, for `peel gateway settings` and `--help`."""
    return [(row.name, f"{row.help} [{_toml_value(row)}]") for row in settings_table()]


def _bounds(row: Setting) -> str:
    if row.secret:
        return " Secret: better in the environment."
    return f" From {row.minimum:.15g} to {row.maximum:.15g}." if row.minimum is not None else ""


def _toml_value(row: Setting) -> str:
    if row.optional:
        return '""'
    if isinstance(row.default, Path | str):
        return json.dumps(str(row.default))
    return json.dumps(row.default)
