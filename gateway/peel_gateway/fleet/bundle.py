# SPDX-License-Identifier: MIT
"""Provisioning bundles, which hold all that one device needs and nothing about any other, and logins at the broker."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from peel_core import Profile, derive_keys
from peel_core.keys import SALT_BYTES
from peel_gateway.files import write_together
from peel_gateway.fleet.folder import ACTIVE, Device, Fleet, FleetError, IssuedBundle

__all__ = [
    "GATEWAY_USER",
    "OWN_LOGIN",
    "TEMPLATE_KEYS",
    "device_password",
    "draft_bundle",
    "gateway_password",
    "load_template",
    "make_bundles",
    "password_lines",
    "prepare_bundles",
    "write_bundles",
]

TEMPLATE_KEYS = ("board", "transport", "mqtt", "wifi", "sensors", "interval_s", "sleep", "outbox", "confirm")
"""The keys of a template, the part of a bundle that devices share."""

_KEYS = ("seal_key", "index_key", "receipt_key", "coin_key")

_SEED_BYTES = 32

_BATCH = 256
"""Bundles that are written and synced to disk together."""


def load_template(path: Path) -> dict[str, Any]:
    """Read the template. If it holds a password, its mode must be 0600."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            template = json.load(file)
    except (OSError, ValueError) as error:
        raise FleetError(
            f"{path}: cannot read the template: {error}. Check the path, its permissions and the JSON."
        ) from None
    if not isinstance(template, dict):
        raise FleetError(f"{path}: must be a JSON object with some of: {', '.join(TEMPLATE_KEYS)}")
    unknown = sorted(set(template) - set(TEMPLATE_KEYS))
    if unknown:
        raise FleetError(f"{path}: {unknown[0]}: unknown key in a template. Known keys: {', '.join(TEMPLATE_KEYS)}")
    for part in ("mqtt", "wifi", "sensors"):
        if not isinstance(template.get(part, {}), dict):
            raise FleetError(f"{path}: {part}: must be a JSON object, got {type(template[part]).__name__}")
    _check_login(path, template.get("mqtt", {}))
    holds_password = any(template.get(part, {}).get("password") for part in ("mqtt", "wifi"))
    if holds_password and mode & 0o077:
        raise FleetError(f"{path}: holds a password but others can read it (mode {mode:04o}); run chmod 600 {path}")
    return template


def _check_login(path: Path, mqtt: Mapping[str, Any]) -> None:
    if "login" not in mqtt:
        return
    if mqtt["login"] != OWN_LOGIN:
        raise FleetError(
            f"{path}: mqtt.login: must be {OWN_LOGIN!r}, got {mqtt['login']!r}. For a login that devices share, set user and password."
        )
    if "user" in mqtt or "password" in mqtt:
        raise FleetError(
            f"{path}: mqtt.login: gives each device its own user and password. Remove mqtt.user and mqtt.password."
        )


def make_bundles(fleet: Fleet, devices: Sequence[Device], template: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each device's present bundle, which is the last one issued to it."""
    profiles = fleet.profiles()
    for device in devices:
        if not device.bundles:
            raise FleetError(f"device {device.label}: no bundle was issued to it")
        if device.bundles[-1].profile not in profiles:
            raise FleetError(f"device {device.label}: its profile {device.bundles[-1].profile!r} is not in the fleet")
    issues = [device.bundles[-1] for device in devices]
    ids, firsts = [device.id for device in devices], [issue.first_number for issue in issues]
    salts = np.frombuffer(b"".join(issue.salt for issue in issues), np.uint8).reshape(-1, SALT_BYTES)
    master = fleet.master().reveal()
    keys = derive_keys(master, fleet.name, ids, firsts, salts)
    for device, issue, *secret in zip(devices, issues, keys.seal, keys.index, keys.receipt, keys.coin, strict=True):
        hexadecimal = [key.tobytes().hex() for key in secret]
        profile = profiles[issue.profile]
        login = device_password(master, fleet.name, device)
        yield _bundle(fleet.name, device.label, hexadecimal, issue, profile, template, login)


def draft_bundle(fleet: Fleet, profile: Profile, template: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bundle of this profile with zero keys, to check the template before a device is registered."""
    issue = IssuedBundle(
        first_number=1,
        last_number=1,
        salt=bytes(SALT_BYTES),
        made=datetime.now(UTC).isoformat(),
        profile=profile.name,
        profile_id=f"{profile.id:08x}",
        quota=profile.quota,
        period=profile.period,
    )
    return _bundle(fleet.name, "00000001", ["00" * 16] * len(_KEYS), issue, profile, template, "password")


def _bundle(
    fleet: str,
    device: str,
    keys: Sequence[str],
    issue: IssuedBundle,
    profile: Profile,
    template: Mapping[str, Any],
    password: str,
) -> dict[str, Any]:
    mqtt = dict(template.get("mqtt", {}))
    if mqtt.pop("login", None) == OWN_LOGIN:
        mqtt |= {"user": device, "password": password}
    return {
        "peel": 1,
        "fleet": fleet,
        "device": device,
        **dict(zip(_KEYS, keys, strict=True)),
        "seed": secrets.token_hex(_SEED_BYTES),
        "first_number": issue.first_number,
        "last_number": issue.last_number,
        "profile": profile.table(),
        "sensors": {},
        # By default a device spends its quota evenly.
        "interval_s": profile.interval_s,
        "sleep": "none",
        **template,
        # A device without a time server checks certificates against this time.
        "mqtt": {"host": "127.0.0.1", "port": 1883, **mqtt, "made": int(issue.time.timestamp())},
    }


def prepare_bundles(fleet: Fleet) -> None:
    """Check the key and make the bundle folder, so that `write_bundles` does not fail after devices were registered."""
    fleet.master()
    with fleet.writing():
        (fleet.folder / "bundles").mkdir(mode=0o700, exist_ok=True)


def write_bundles(
    fleet: Fleet,
    devices: Sequence[Device],
    template: Mapping[str, Any],
    *,
    first_number: int | None = None,
    on_written: Callable[[int], object] = lambda count: None,
) -> list[Path]:
    """IssuedBundle bundles and write them with mode 0600; return their paths.

    Each bundle's numbers begin above those of the previous one. `on_written` is called with the size of each written batch.
    """
    prepare_bundles(fleet)
    issued = {device.id: device for device in fleet.issue([device.id for device in devices], first_number)}
    devices = [issued[device.id] for device in devices]

    paths = [fleet.bundle_path(device) for device in devices]
    for start in range(0, len(devices), _BATCH):
        batch = slice(start, start + _BATCH)
        bundles = make_bundles(fleet, devices[batch], template)
        texts = (json.dumps(bundle, indent=1, ensure_ascii=False) + "\n" for bundle in bundles)
        with fleet.writing():
            write_together(dict(zip(paths[batch], texts, strict=True)))
        on_written(len(paths[batch]))
    return paths


GATEWAY_USER = "gateway"
"""The gateway's user name at the broker, as the sample ACL has it; no device id looks like it."""

OWN_LOGIN = "own"
"""The value of `mqtt.login` in a template that gives each device its own login: its id, and a password derived from the master key."""

_PASSWORD_BYTES = 16

_ROUNDS = 101

_SALT_BYTES = 12


def device_password(master: bytes, fleet: str, device: Device) -> str:
    """Derive a device's password at the broker: independent of its keys, and of every other device's password.

    The salt of its first bundle goes in, so later bundles keep the password, and a device that gets the same id
    after the folder was restored from an old copy has another password.
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
    """Hash a password as `mosquitto_passwd` does: PBKDF2 with SHA-512. Few rounds are enough for 128 random bits."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return f"$7${_ROUNDS}${b64encode(salt).decode()}${b64encode(digest).decode()}"
