# SPDX-License-Identifier: MIT
"""The real engine with devices that have verified coins, and a clock that the caller sets."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from peel_core import Keyring, Profile, derive_keys, make_profile
from peel_core.coins import challenge_root
from peel_core.projection import search_seed
from peel_gateway.engine.clock import Reading
from peel_gateway.engine.engine import Engine
from peel_gateway.screening.decode_context import TimesFromDicts
from peel_gateway.storage.sql.transaction import SqlTransaction
from peel_gateway.storage.sqlite.store import SqliteStore

__all__ = ["BUCKET_SECONDS", "Fleet", "means", "verified_profile"]

_FLEET = "promise"
_MASTER = b"p" * 32
_START = 1_700_000_000.0
BUCKET_SECONDS = 300
_ERA_SALT = 7


def verified_profile(attributes: Sequence[dict[str, Any]], *, quota: int = 600, offline: int = 360) -> Profile:
    """Return a profile with verified coins at epsilon 1. The quota is for an hour."""
    head = {"name": "promise", "epsilon": 1, "seed": search_seed(48, 4)[0], "quota": quota, "period": 3600}
    return make_profile(
        {**head, "verify": True, "offline": offline, "bucket": BUCKET_SECONDS, "attribute": list(attributes)}
    )


def means(count: int) -> list[dict[str, Any]]:
    """Return attributes that are means of numbers from -1 to 1."""
    return [{"name": f"a{i}", "kind": "mean", "low": -1, "high": 1} for i in range(count)]


class Fleet(TimesFromDicts):
    """Devices, their keys, and an engine with a clock that the caller sets."""

    def __init__(self, folder: Path, devices: int, profile: Profile) -> None:
        self.profile = profile
        ids = np.arange(1, devices + 1, dtype=np.uint32)
        self.keys = derive_keys(_MASTER, _FLEET, ids, 1, bytes(16))
        root = challenge_root(_MASTER, _FLEET)
        self.keyring = Keyring((self.profile,), ids, 1, np.zeros(devices, np.int32), self.keys, challenge_root=root)
        self.revoked: frozenset[int] = frozenset()
        self.enrolled = dict.fromkeys(ids.tolist(), _START)
        self.issued: dict[int, tuple[int, float]] = {}
        self.now = _START
        self.file = folder / "promise.sqlite"
        self._backup = folder / "backup.sqlite"
        self.start()

    def clock(self) -> Reading:
        """Return what the machine's clocks say."""
        return Reading(round(self.now * 1000), 1, round(self.now * 1000))

    def start(self) -> None:
        """Open the database and begin to work, as a gateway does. A new or restored database begins an era.

        The random half of the era is set to a fixed number, so that all audits and challenges are the same in every run.
        """
        self._open()
        self.engine.process([])
        with self.store.begin() as transaction:
            assert isinstance(transaction, SqlTransaction)
            transaction._set_meta({"era_salt": _ERA_SALT})
        self.cut_power()

    def cut_power(self) -> None:
        """Start again from what is in the database."""
        self.store.close()
        self._open()

    def _open(self) -> None:
        self.store = SqliteStore(self.file, bucket_seconds=BUCKET_SECONDS)
        self.engine = Engine(self.store, clock=self.clock)
        self.engine.load(self)

    def back_up(self) -> None:
        """Stop, copy the database, and start again."""
        self.store.close()
        shutil.copyfile(self.file, self._backup)
        self.start()

    def restore(self) -> None:
        """Stop, put the copy back, and start again. What lies beside the database stays."""
        self.store.close()
        shutil.copyfile(self._backup, self.file)
        self.start()
