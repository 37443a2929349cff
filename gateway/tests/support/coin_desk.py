# SPDX-License-Identifier: MIT
"""A fleet folder with verified coins, its settings and its database, in a process whose time is what the test says."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import CliRunner, Result
from helpers import climate_profile
from verified import Talker

from peel_core import Keys, Profile
from peel_gateway.commands.gateway import gateway as gateway_commands
from peel_gateway.engine.engine import Engine
from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.metrics import Metrics
from peel_gateway.model.messages import Message
from peel_gateway.queries.responses import Device
from peel_gateway.queries.views import Views
from peel_gateway.storage.sqlite.store import SqliteStore

__all__ = ["BUCKET", "HELD", "CoinDesk"]

HELD = 20
"""Reports of a stalled device."""
BUCKET = 300
"""Seconds of a time bucket of the verified profile; the database's are shorter."""


class CoinDesk:
    """Devices 1 and 2 have verified coins, device 3 has not. Time begins `ago` seconds before now."""

    def __init__(
        self, folder: Path, chance: np.random.Generator, monkeypatch: pytest.MonkeyPatch, ago: float = 0
    ) -> None:
        monkeypatch.chdir(folder)
        self._chance = chance
        plain, coins = folder / "plain.toml", folder / "coins.toml"
        plain.write_text(climate_profile("plain"))
        verified = f"offline = 360\nbucket = {BUCKET}"
        coins.write_text(climate_profile("coins", quota=600, period=3600).replace("verify = false", verified))
        self.fleet = Fleet.create(folder / "fleet", "lab", [plain, coins])
        self.fleet.enrol("coins", count=2)
        self.fleet.enrol("plain")
        self.snapshot = take_snapshot(self.fleet)
        settings = folder / "gateway.toml"
        settings.write_text(f"[mqtt]\nport = 1\n[http]\nport = 0\n[store]\nbucket_seconds = {BUCKET // 3}\n")
        settings.chmod(0o600)
        self.path = folder / "peel.sqlite"
        self.now = float(int(time.time() - ago))  # whole seconds: a database has milliseconds
        monkeypatch.setattr(time, "time", lambda: self.now)
        self.open()

    def open(self) -> None:
        """Open the database, as a gateway does that starts."""
        self.store = SqliteStore(self.path, bucket_seconds=BUCKET // 3)
        self.engine = Engine(self.store)
        self.engine.load(self.snapshot)
        self.views = Views(self.store, lambda: self.snapshot)

    # ---- what a talker needs ----

    def profile(self, device: int, number: int) -> Profile:
        (bundle,) = self.snapshot.keyring.find([device], [number])
        return self.snapshot.keyring.profiles[int(self.snapshot.keyring.bundle_profile[bundle])]

    def keys_of(self, device: int, numbers: npt.ArrayLike) -> Keys:
        keyring = self.snapshot.keyring
        return keyring.keys.of(keyring.find(np.full(np.shape(numbers), device), numbers))

    def chance_bytes(self, size: int) -> bytes:
        return self._chance.bytes(size)

    def send(self, frames: Sequence[bytes]) -> dict[str, int]:
        report = self.engine.process([Message("peel/v1/lab/00/x/report", frame, self.now) for frame in frames])
        return {verdict.label: count for verdict, count in report.counts.items()}

    # ---- what it shows ----

    def talker(self, device: int = 1) -> Talker:
        lab: Any = self
        return Talker(lab, device)

    def stall(self, device: int = 1) -> Talker:
        """Let a device report and not answer its challenge."""
        talker = self.talker(device)
        talker.ready()
        talker.talk(talker.report(HELD, 0.5))
        talker.ready()  # no audit waits, so that the challenge does
        self.now += BUCKET
        self.send([])
        return talker

    def device(self, device: int = 1) -> Device:
        return self.views.device(device)

    def totals(self) -> tuple[int | None, int | None]:
        found = Views(self.store, lambda: self.snapshot).device_counts().response(self.now)
        return found["held_reports"], found["stalled_devices"]

    def metric(self, name: str) -> float:
        metrics = Metrics()
        metrics.watch_devices(Views(self.store, lambda: self.snapshot))
        (line,) = (line for line in metrics.exposition().decode().splitlines() if line.startswith(f"{name} "))
        return float(line.split()[1])

    def type(self, *words: str) -> Result:
        return CliRunner().invoke(gateway_commands, words)

    def ask(self, *words: str) -> Any:
        done = self.type(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)
