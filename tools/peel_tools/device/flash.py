# SPDX-License-Identifier: MIT
"""A folder as a device's flash: the application's files, the bundle, and the device's own files."""

from __future__ import annotations

import json
import math
import random
import shutil
import ssl
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peel_gateway.files import write_atomically
from peel_tools.boards.table import find_board
from peel_tools.flashing import FlashError
from peel_tools.flashing.bundles import check_history, fresh_bundle_advice, note_provisioned
from peel_tools.flashing.device_files import Sources, application, folders
from peel_tools.simulation.publisher import BrokerAddress

__all__ = ["Changes", "Flash", "read_bundle", "read_outbox", "simulated_sensors"]

_BUNDLE = "peel.json"
_BOARD = "host"
_CA = "ca.der"


@dataclass(frozen=True, kw_only=True)
class Changes:
    """Changes to a bundle for this machine."""

    broker: BrokerAddress | None = None
    """A broker instead of the bundle's."""
    ca: Path | None = None
    """The CA's certificate, PEM or DER."""
    interval_s: float | None = None
    simulate: int | None = None
    """Replace all sensors by simulated ones with this seed."""

    def applied(self, bundle: dict[str, Any]) -> dict[str, Any]:
        """Return the bundle with these changes."""
        changed = {**bundle, "board": _BOARD, "transport": "wifi"}
        if self.broker is not None:
            mqtt = {"host": self.broker.host, "port": self.broker.port, "tls": self.broker.tls}
            changed["mqtt"] = {**bundle["mqtt"], **mqtt}
        if self.ca is not None:
            changed["mqtt"] = {**changed["mqtt"], "ca": _CA}
        if self.interval_s is not None:
            changed["interval_s"] = self.interval_s
        if self.simulate is not None:
            try:
                changed["sensors"] = simulated_sensors(bundle, self.simulate)
            except (KeyError, TypeError, AttributeError) as error:
                raise FlashError(
                    f"the bundle's profile is damaged ({error}). Restore the bundle, or write a new one with `peel fleet bundle`"
                ) from None
        return changed


class Flash:
    """The flash of one device."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def bundle(self) -> dict[str, Any]:
        """The bundle on it. FlashError if it was never provisioned."""
        return read_bundle(self.folder / _BUNDLE)

    @property
    def home(self) -> Path:
        """The folder with the state of the bundle's device."""
        bundle = self.bundle
        return self.folder / "peel" / f"{bundle['fleet']}-{bundle['device']}"

    def provision(self, bundle: Path, sources: Sources, changes: Changes, files: Sequence[Path] = ()) -> None:
        """Install the application, a bundle of the fleet and the user's own files."""
        content = read_bundle(bundle)
        ledgers = (self.folder / "peel" / f"{content['fleet']}-{content['device']}").glob("ledger.*")
        check_history(bundle, any(ledgers) or self._is_unused_with(content))
        self.install(content, sources, changes, files)
        note_provisioned(bundle)

    def _is_unused_with(self, bundle: dict[str, Any]) -> bool:
        """Return whether this bundle is on it and its device stored nothing yet. Then no number was used, and no other flash has it."""
        if not (self.folder / _BUNDLE).exists():
            return False
        kept = (path for path in (self.folder / "peel").rglob("*") if path.is_file())
        return self.bundle.get("seed") == bundle.get("seed") and not any(kept)

    def install(self, bundle: dict[str, Any], sources: Sources, changes: Changes, files: Sequence[Path] = ()) -> None:
        """Install the application and a bundle, without checking whether the bundle was on another flash."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if changes.ca is not None:
            (self.folder / _CA).write_bytes(_der(changes.ca))
        write_atomically(self.folder / _BUNDLE, json.dumps(changes.applied(bundle)) + "\n", mode=0o600)
        copies = application(find_board(_BOARD), sources, core=[], bundle=self.folder / _BUNDLE, ca=None)
        for name in folders(copies):
            (self.folder / name).mkdir(exist_ok=True)
        for copy in copies:
            if not copy.secret:
                shutil.copyfile(copy.source, self.folder / copy.target)
        for file in files:
            shutil.copyfile(file, self.folder / file.name)


def read_bundle(path: Path) -> dict[str, Any]:
    """Return the bundle in a file. The device itself checks its content."""
    try:
        bundle = json.loads(path.read_bytes())
        return {**bundle, "mqtt": dict(bundle["mqtt"]), "device": str(bundle["device"]), "fleet": str(bundle["fleet"])}
    except OSError as error:
        raise FlashError(f"{path}: cannot be read: {error.strerror}. Check the path and its permissions") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FlashError(f"{path}: is not a whole bundle ({error}). {fresh_bundle_advice(path)}") from None


def _der(path: Path) -> bytes:
    """Return a certificate in DER form, which boards take."""
    content = path.read_bytes()
    if not content.startswith(b"-----BEGIN"):
        return content
    try:
        return ssl.PEM_cert_to_DER_cert(content.decode())
    except ValueError as error:
        raise FlashError(f"{path}: not a certificate ({error}). Give the CA's certificate as PEM or DER") from None


_LENGTH = 240


def simulated_sensors(bundle: Mapping[str, Any], seed: int) -> dict[str, dict[str, Any]]:
    """Return bundle entries of simulated sensors, the same for the same seed.

    A number is a wave within its range with a little noise; categories are drawn at random.
    """
    sensors = {}
    for name, attributes in _by_reading(bundle["profile"]["attributes"]).items():
        draw = random.Random(f"{seed}/{bundle['device']}/{name}")
        sensors[name] = {"kind": "trace", "values": _values(attributes, draw)}
    return sensors


def _by_reading(attributes: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for attribute in attributes:
        found.setdefault(attribute["name"], []).append(attribute)
    return found


def _values(attributes: Sequence[Mapping[str, Any]], draw: random.Random) -> list[float]:
    categories = [each.get("domain") or len(each.get("categories", ())) for each in attributes]
    if all(categories):
        return [draw.randrange(min(categories)) for _ in range(_LENGTH)]
    return _wave(*_range(attributes), draw)


def _range(attributes: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the range of a mean, or one that goes beyond all thresholds."""
    for each in attributes:
        if each["kind"] == "mean":
            return each["low"], each["high"]
    thresholds = [threshold for each in attributes for threshold in each["thresholds"]]
    low, high = min(thresholds), max(thresholds)
    margin = (high - low) or max(1.0, abs(low))
    return low - margin, high + margin


def _wave(low: float, high: float, draw: random.Random) -> list[float]:
    level, swing, phase = draw.uniform(0.3, 0.7), draw.uniform(0.0, 0.2), draw.uniform(0.0, math.tau)
    shares = (
        level + swing * math.sin(phase + math.tau * place / _LENGTH) + draw.gauss(0.0, 0.02) for place in range(_LENGTH)
    )
    return [round(low + (high - low) * share, 4) for share in shares]


_NAME_DIGITS = 12
_CHECKSUM_BYTES = 4


def read_outbox(home: Path) -> dict[int, bytes]:
    """Return the complete frames in a device's outbox, by report number. Frames torn by a power cut are left out.

    This does not use the firmware's code, so that a mistake in the firmware cannot hide here.
    """
    found = {}
    for path in home.glob("outbox/*"):
        if len(path.name) == _NAME_DIGITS:
            data = _read(path)
            frame, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
            if frame and zlib.crc32(frame) == int.from_bytes(checksum, "little"):
                found[int(path.name, 16)] = frame
    return found


def _read(path: Path) -> bytes:
    """Return a file's content, empty if a running device has just removed it."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
