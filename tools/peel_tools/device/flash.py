# SPDX-License-Identifier: MIT
"""A folder as a device's flash: the files of the application, the bundle, and what the device writes."""

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
    """In what a bundle is to differ on this machine from what it says."""

    broker: BrokerAddress | None = None
    """Another broker than its own."""
    ca: Path | None = None
    """The CA's certificate, PEM or DER."""
    interval_s: float | None = None
    simulate: int | None = None
    """Take every sensor's readings from the simulation with this seed."""

    def applied(self, bundle: dict[str, Any]) -> dict[str, Any]:
        """The bundle as this machine runs it."""
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
    """The flash of one device; `bundle` is there once it was provisioned."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def bundle(self) -> dict[str, Any]:
        """The bundle on it; FlashError when there is none."""
        return read_bundle(self.folder / _BUNDLE)

    @property
    def home(self) -> Path:
        """Where the device that its bundle names keeps its state."""
        bundle = self.bundle
        return self.folder / "peel" / f"{bundle['fleet']}-{bundle['device']}"

    def provision(self, bundle: Path, sources: Sources, changes: Changes, files: Sequence[Path] = ()) -> None:
        """Put the application, a bundle of the fleet's and files of the user's own onto it."""
        content = read_bundle(bundle)
        ledgers = (self.folder / "peel" / f"{content['fleet']}-{content['device']}").glob("ledger.*")
        check_history(bundle, any(ledgers) or self._is_unused_with(content))
        self.install(content, sources, changes, files)
        note_provisioned(bundle)

    def _is_unused_with(self, bundle: dict[str, Any]) -> bool:
        """Whether this very bundle is on it, and its device stopped before it kept anything: no number was used, no other flash has it."""
        if not (self.folder / _BUNDLE).exists():
            return False
        kept = (path for path in (self.folder / "peel").rglob("*") if path.is_file())
        return self.bundle.get("seed") == bundle.get("seed") and not any(kept)

    def install(self, bundle: dict[str, Any], sources: Sources, changes: Changes, files: Sequence[Path] = ()) -> None:
        """The same with a bundle that no file has, without asking whether it has been on another flash."""
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
    """A bundle from a file; the device itself checks what is in it."""
    try:
        bundle = json.loads(path.read_bytes())
        return {**bundle, "mqtt": dict(bundle["mqtt"]), "device": str(bundle["device"]), "fleet": str(bundle["fleet"])}
    except OSError as error:
        raise FlashError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise FlashError(f"{path}: is not a whole bundle ({error}). {fresh_bundle_advice(path)}") from None


def _der(path: Path) -> bytes:
    """A certificate as boards take it."""
    content = path.read_bytes()
    if not content.startswith(b"-----BEGIN"):
        return content
    try:
        return ssl.PEM_cert_to_DER_cert(content.decode())
    except ValueError as error:
        raise FlashError(f"{path}: is not a certificate: {error}") from None


_LENGTH = 240


def simulated_sensors(bundle: Mapping[str, Any], seed: int) -> dict[str, dict[str, Any]]:
    """An entry per sensor, as bundles have them: a wave within the attribute's range with a little noise, or categories at random."""
    profile = bundle["profile"]
    count = profile.get("domain") or len(profile.get("categories") or ())
    sensors = {}
    for attribute in profile["attributes"]:
        draw = random.Random(f"{seed}/{bundle['device']}/{attribute['name']}")
        values = [draw.randrange(count) for _ in range(_LENGTH)] if count else _wave(attribute, draw)
        sensors[attribute["name"]] = {"kind": "trace", "values": values}
    return sensors


def _wave(attribute: Mapping[str, Any], draw: random.Random) -> list[float]:
    low, span = attribute["low"], attribute["high"] - attribute["low"]
    level, swing, phase = draw.uniform(0.3, 0.7), draw.uniform(0.0, 0.2), draw.uniform(0.0, math.tau)
    shares = (
        level + swing * math.sin(phase + math.tau * place / _LENGTH) + draw.gauss(0.0, 0.02) for place in range(_LENGTH)
    )
    return [round(low + span * share, 4) for share in shares]


_NAME_DIGITS = 12
_CHECKSUM_BYTES = 4


def read_outbox(home: Path) -> dict[int, bytes]:
    """The whole frames in the outbox below a device's folder of state, by report number; those that a cut tore are none."""
    found = {}
    for path in home.glob("outbox/*"):
        if len(path.name) == _NAME_DIGITS:
            data = _read(path)
            frame, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
            if frame and zlib.crc32(frame) == int.from_bytes(checksum, "little"):
                found[int(path.name, 16)] = frame
    return found


def _read(path: Path) -> bytes:
    """What is in a file; nothing where a running device has just removed it."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
