# SPDX-License-Identifier: MIT
"""A database with a byte of its blobs changed, or cut anywhere: what is wrong is told with what to do, or a recount finds it."""

from __future__ import annotations

import numpy as np
import pytest
from lab import Lab, MakeLab

from peel_gateway.engine.recount import recount
from peel_gateway.screening import state_cache
from peel_gateway.storage.sql import log as sql_log
from peel_gateway.storage.store import StoreCorrupt

ROWS = {
    "sealed log": ("log", "data", "sealed = 1"),
    "open log": ("log", "data", "sealed = 0"),
    "bets": ("test_state", "state", "device > 0"),
}


ALLOWED = {("sealed log", "changed"): {"told", "recounted"}}  # of a compressed column's head some bits say nothing
"""Allowed outcomes; in any other case the damage must be reported."""


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, make_lab: MakeLab) -> Lab:
    """A gateway with sealed and open segments of the log, and with checkpoints of the bets; nothing in its memory."""
    monkeypatch.setattr(sql_log, "_SEALED_EVENTS", 100)
    monkeypatch.setattr(state_cache, "TAIL", 100)
    monkeypatch.setattr(state_cache, "WINDOW", 1000)
    made = make_lab(devices=2)
    for number in range(1, 151, 10):
        made.send(made.frames(1, range(number, number + 10)))
        made.send(made.frames(2, range(number, number + 9)))
    made.reopen()
    return made


def damaged(data: bytes, how: str, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(data)))
    if how == "cut":
        return data[:at]
    if how == "longer":
        return data + rng.bytes(1 + at % 40)
    changed = bytearray(data)
    changed[at] ^= int(rng.integers(1, 256))
    return bytes(changed)


def use(lab: Lab) -> str:
    """Return the outcome of each thing that a gateway does with its store, in a word."""
    lab.reopen()
    try:
        lab.send(lab.frames(1, [200]) + lab.frames(2, [200]))
        return "recounted" if recount(lab.store, lab).agrees else "differs"
    except StoreCorrupt as error:
        assert "restore a copy" in str(error)
        return "told"


@pytest.mark.parametrize("how", ["changed", "cut", "longer"])
@pytest.mark.parametrize("what", ROWS)
def test_damage_is_told_and_nothing_else_happens(lab: Lab, what: str, how: str, rng: np.random.Generator) -> None:
    table, column, where = ROWS[what]
    (data,) = lab.database.execute(f"SELECT {column} FROM {table} WHERE {where} LIMIT 1")[0]
    changed = damaged(data, how, rng)
    lab.database.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (changed, data))
    assert use(lab) in ALLOWED.get((what, how), {"told"})
