# SPDX-License-Identifier: MIT
"""The device bundle: JSON that provisioning writes. The device checks each key before it does anything else.

The odds of the coins are part of the bundle. The device uses them as they are, and states them in each frame.
"""

import json

from peel_device import checks, sensors
from peel_device.errors import ConfigError
from peel_device.kinds import blocks_of, by_reading, read_attributes, table_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from peel_device.kinds import Attribute

WIDTH_MAX = 1024
BLOCKS_MAX = 32  # of an encoder in the core
BOARDS = ("pico", "pico_w", "esp32", "qemu", "host")
TRANSPORTS = ("wifi", "uart")
SLEEPS = ("none", "light", "deep")
CONFIRMS = ("gateway", "broker")
AUDITS = (8, 16)
TABLE_MAX = 64  # outcomes of a verified coin


class Profile:
    """The profile: its attributes and the privacy parameters of the reports (SPEC section 10)."""

    def __init__(self, value: "Any") -> None:
        given = checks.fields("profile", value, _PROFILE, _PROFILE_OPTIONAL)
        self.name: str = given["name"]
        self.id: int = given["id"]
        self.epsilon_q20: int = given["epsilon_q20"]
        self.width: int = given["width"]
        self.seed: int = given["seed"]
        self.quota: int = given["quota"]
        self.period: int = given["period"]
        self.lifetime: int | None = given["lifetime"]
        self.audits: int | None = given["audits"]
        self.offline: int | None = given["offline"]
        self.bucket: int | None = given["bucket"]
        self.attributes: "list[Attribute]" = given["attributes"]
        self.about = by_reading("profile.attributes", self.attributes)
        # In the order of the profile: MicroPython's dictionaries have none.
        self.readings = [each.name for each in self.attributes if self.about[each.name][0] is each]
        self.blocks = blocks_of(self.attributes)
        self.questions = sum([each.questions for each in self.attributes])
        self.columns = sum([each.questions * each.symbols for each in self.attributes])
        if self.columns > self.width:
            raise ConfigError("profile.width", "must be at least the number of symbols, %d" % self.columns)
        if len(self.blocks) > BLOCKS_MAX:
            raise ConfigError("profile.attributes", "must not make more than %d blocks" % BLOCKS_MAX)
        _check_coins(self)


def _check_coins(profile: Profile) -> None:
    """Check the keys of a profile with verified coins (SPEC section 13)."""
    for key in ("offline", "bucket"):
        if (profile.audits is None) != (getattr(profile, key) is None):
            raise ConfigError("profile." + key, "must be given exactly if profile.audits is")
    if profile.audits is None:
        return
    if profile.audits not in AUDITS:
        raise ConfigError("profile.audits", "must be 8 or 16")
    if any(table_size(block) > TABLE_MAX for block in profile.blocks):
        raise ConfigError("profile.attributes", "must have tables of at most %d outcomes to be verified" % TABLE_MAX)


class Mqtt:
    """The broker's address and credentials. TLS needs `ca`, a DER file on the device's flash."""

    def __init__(self, value: "Any") -> None:
        given = checks.fields("mqtt", value, _MQTT, _MQTT_OPTIONAL)
        self.host: str = given["host"]
        self.port: int = given["port"]
        self.user: str = given["user"]
        self.password: checks.Secret = given["password"]
        self.tls: bool = given["tls"]
        self.ca: str = given["ca"]
        self.ntp: str = given["ntp"]
        self.made: int = given["made"]
        if self.tls and not self.ca:
            raise ConfigError("mqtt.ca", "is missing: TLS without a CA would trust anyone")


class Wifi:
    """The Wi-Fi network to join."""

    def __init__(self, value: "Any") -> None:
        given = checks.fields("wifi", value, {"ssid": checks.text(1, 32), "password": checks.secret_text}, {})
        self.ssid: str = given["ssid"]
        self.password: checks.Secret = given["password"]


class Config:
    """A checked bundle."""

    def __init__(self, bundle: "Any") -> None:
        given = checks.fields("", bundle, _BUNDLE, _BUNDLE_OPTIONAL)
        self.fleet: str = given["fleet"]
        self.device: int = given["device"]
        if not self.device:
            raise ConfigError("device", "must not be 0")
        self.seal_key: checks.Secret = given["seal_key"]
        self.index_key: checks.Secret = given["index_key"]
        self.receipt_key: checks.Secret = given["receipt_key"]
        self.coin_key: checks.Secret = given["coin_key"]
        self.seed: checks.Secret = given["seed"]
        self.first_number: int = given["first_number"]
        self.last_number: int = given["last_number"]
        if self.last_number < self.first_number:
            raise ConfigError("last_number", "must not be below first_number")
        self.profile: Profile = given["profile"]
        self.mqtt: Mqtt = given["mqtt"]
        self.wifi: Wifi | None = given["wifi"]
        self.board: str = given["board"]
        self.transport: str = given["transport"]
        self.interval_ms = int(given["interval_s"] * 1000)
        self.sleep: str = given["sleep"]
        self.outbox: int = given["outbox"]
        self.confirm: str = given["confirm"]
        self.sensors = _sensors(given["sensors"], self.profile)
        if self.interval_ms < 0:
            raise ConfigError("interval_s", "must not be negative")
        if self.confirm == "broker" and self.profile.audits is not None:
            raise ConfigError("confirm", "must be gateway: a broker cannot audit or challenge verified coins")

    @property
    def name(self) -> str:
        """The device id as it is written in topics and folder names."""
        return "%08x" % self.device

    @property
    def topic(self) -> str:
        """The device's topic without its last level."""
        return "peel/v1/%s/%02x/%s/" % (self.fleet, self.device & 63, self.name)


def _sensors(value: "dict[str, Any]", profile: Profile) -> "dict[str, dict[str, Any]]":
    for name in profile.readings:
        if name not in value:
            raise ConfigError("sensors." + name, "is missing: each reading needs a sensor")
    for name in value:
        if name not in profile.readings:
            raise ConfigError("sensors." + name, "is not an attribute of the profile")
        _sensor("sensors." + name, value[name], [each.categories for each in profile.about[name]])
    return value


def _sensor(where: str, entry: "Any", categories: list[int]) -> None:
    kind = checks.one_of(tuple(sensors.KINDS))(where + ".kind", checks.table(where, entry).get("kind"))
    required, optional = sensors.KINDS[kind]
    needs = {key: _SENSOR[key] for key in ("kind",) + required}
    may = {key: (_SENSOR[key], None) for key in optional}
    if categories[0]:
        may["edges"] = (_SENSOR["edges"], None)
    edges = checks.fields(where, entry, needs, may).get("edges")
    if edges is not None and any(count != len(edges) + 1 for count in categories):
        raise ConfigError(where + ".edges", "must have one entry fewer than there are categories")


def _one_wire_code(key: str, value: "Any") -> str:
    from drivers.ds18b20 import crc8

    digits = checks.text(16, 16)(key, value)
    try:
        right = crc8(bytes.fromhex(digits)) == 0
    except ValueError:
        right = False
    if not right:
        raise ConfigError(key, "must be the 16 hexadecimal digits of a 1-Wire device, including its checksum")
    return str(digits)


def _values(key: str, value: "Any") -> "list[Any]":
    return checks.items(key, value, 1, 100000)


def load(text: bytes) -> Config:
    """Parse and check a bundle."""
    try:
        bundle = json.loads(text)
    except ValueError:
        raise ConfigError("bundle", "is not valid JSON: copy it to the device again") from None
    return Config(bundle)


_PROFILE: "dict[str, checks.Check]" = {
    "name": checks.text(1, 32),
    "id": checks.identifier,
    "epsilon_q20": checks.integer(1, 6 << 20),
    "width": checks.integer(2, WIDTH_MAX),
    "seed": checks.integer(0, (1 << 32) - 1),
    "quota": checks.integer(1, 1000000),
    "period": checks.integer(1, 100000000),
    "attributes": read_attributes,
}
_PROFILE_OPTIONAL: "dict[str, tuple[checks.Check, Any]]" = {
    "lifetime": (checks.integer(1, (1 << 48) - 1), None),
    "audits": (checks.integer(AUDITS[0], AUDITS[-1]), None),
    "offline": (checks.integer(1, 100000000), None),
    "bucket": (checks.integer(1, 86400), None),
}
_MQTT: "dict[str, checks.Check]" = {"host": checks.text(1, 255), "port": checks.integer(1, 65535)}
_MQTT_OPTIONAL: "dict[str, tuple[checks.Check, Any]]" = {
    "user": (checks.text(0, 128), ""),
    "password": (checks.secret_text, checks.Secret(b"")),
    "tls": (checks.truth, False),
    "ca": (checks.text(0, 64), ""),
    "ntp": (checks.text(0, 255), ""),
    "made": (checks.integer(0, (1 << 40) - 1), 0),
}
_BUNDLE: "dict[str, checks.Check]" = {
    "peel": checks.integer(1, 1),
    "fleet": checks.fleet_name,
    "device": checks.identifier,
    "seal_key": checks.secret_hex(16),
    "index_key": checks.secret_hex(16),
    "receipt_key": checks.secret_hex(16),
    "coin_key": checks.secret_hex(16),
    "profile": lambda key, value: Profile(value),
    "mqtt": lambda key, value: Mqtt(value),
    "sensors": checks.table,
    "interval_s": checks.number,
}
_BUNDLE_OPTIONAL: "dict[str, tuple[checks.Check, Any]]" = {
    "seed": (checks.secret_hex(32), checks.Secret(b"")),
    "first_number": (checks.integer(1, (1 << 48) - 1), 1),
    "last_number": (checks.integer(1, (1 << 48) - 1), (1 << 48) - 1),
    "wifi": (lambda key, value: Wifi(value), None),
    "board": (checks.one_of(BOARDS), ""),
    "transport": (checks.one_of(TRANSPORTS), "wifi"),
    "sleep": (checks.one_of(SLEEPS), "none"),
    "outbox": (checks.integer(1, 100000), 200),
    "confirm": (checks.one_of(CONFIRMS), "gateway"),
}
_SENSOR: "dict[str, checks.Check]" = {
    "kind": checks.text(1, 32),
    "pin": checks.integer(0, 63),
    "scale": checks.number,
    "offset": checks.number,
    "device": checks.one_of(sensors.I2C_DEVICES),
    "bus": checks.integer(0, 1),
    "sda": checks.integer(0, 63),
    "scl": checks.integer(0, 63),
    "address": checks.integer(8, 119),
    "code": _one_wire_code,
    "pull": checks.one_of(sensors.PULLS),
    "latch": checks.truth,
    "low": checks.text(1, 32),
    "high": checks.text(1, 32),
    "values": _values,
    "module": checks.text(1, 64),
    "function": checks.text(1, 64),
    "edges": checks.numbers(1, 1024),
}
