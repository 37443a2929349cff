# SPDX-License-Identifier: MIT
"""What the gateway's engine manages on this machine, and how soon its statistics judge a biased coin."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile, derive_keys, encode_many, make_profile
from peel_gateway.engine.engine import Engine
from peel_gateway.model.message import Message
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.bets import FRESH, Events
from peel_gateway.screening.conduct import make_bets
from peel_gateway.screening.roster import Dated
from peel_gateway.storage.sqlite.store import SqliteStore

__all__ = ["measure"]

DEVICES = 500
BATCH = 2000
REPORTS = 20_000
COINS = 201
NEVER = 4001
"""Coins are tossed less often than this; one that is not exposed until then gets this number."""
BIASES = {"always_plus": 1.0, "plus_95": 0.95, "plus_88": 0.88, "plus_82": 0.82}


@dataclass(frozen=True)
class _Registry(Dated):
    keyring: Keyring
    revoked: frozenset[int]
    enrolled: dict[int, float]
    issued: dict[int, tuple[int, float]]


def _profile(k: int) -> Profile:
    attributes = [{"name": f"a{i}", "low": 0, "high": 1} for i in range(k)]
    table = {"name": "bench", "mechanism": "harmony", "epsilon": 1, "seed": 1, "quota": 100_000, "period": 1}
    return make_profile({**table, "width": max(48, k), "attribute": attributes})


def _reports_per_second(k: int) -> int:
    """Wall time from messages of one frame each to committed transactions, database on this machine's disk included."""
    profile = _profile(k)
    ids = np.arange(1, DEVICES + 1, dtype=np.uint32)
    keys = derive_keys(bytes(32), "bench", ids, 1)
    who = np.arange(REPORTS) % DEVICES
    numbers, readings = 1 + np.arange(REPORTS) // DEVICES, np.zeros((REPORTS, k), np.int32)
    frames = encode_many(profile, ids[who], keys.of(who), numbers, readings, entropy=os.urandom(64))
    messages = [Message("peel/v1/bench/00/x/report", frame.tobytes(), time.time()) for frame in frames]
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "bench.sqlite")
        engine = Engine(store)
        engine.load(_Registry(Keyring([profile], ids, 1, np.zeros(DEVICES), keys), frozenset(), {}, {}))
        started = time.perf_counter()
        for first in range(0, REPORTS, BATCH):
            engine.process(messages[first : first + BATCH])
        seconds = time.perf_counter() - started
        accepted = store.counts().verdicts[Verdict.ACCEPTED]
        store.close()
    if accepted != REPORTS:
        raise RuntimeError(f"{accepted} of {REPORTS} honest reports were accepted: that is not what is to be measured")
    return round(REPORTS / seconds)


def _reports_until_exposed(plus: float, k: int = 4, alpha: float = 1e-6) -> npt.NDArray[np.int64]:
    """For each of many coins that show plus with this chance: epsilon 1, judged after every report, no cohort to agree with."""
    bets, chance = make_bets(_profile(k), alpha), np.random.default_rng(1)
    order = np.arange(COINS * (NEVER - 1))  # coin by coin, report by report
    events = Events(
        row=order // (NEVER - 1),
        number=order % (NEVER - 1) + 1,
        unit=chance.integers(k, size=len(order)),
        symbol=chance.random(len(order)) < plus,
        cohort=np.zeros(len(order), np.int8),
        kind=np.full(len(order), FRESH),
    )
    crossed = bets.update(bets.new_states(COINS), events)
    return np.where(crossed < 0, NEVER, crossed % (NEVER - 1) + 1)


def measure() -> dict[str, Any]:
    """All of it, as `peel bench gateway --json` prints it."""
    likeliest = (1 + _profile(4).rule / 2**31) / 2
    return {
        "reports_per_second": {f"k{k}": _reports_per_second(k) for k in (16, 252)},
        "median_reports_until_exposed": {
            name: int(np.median(_reports_until_exposed(plus))) for name, plus in BIASES.items()
        },
        "honest_extreme_coins_exposed": int(np.sum(_reports_until_exposed(likeliest) < NEVER)),
        "honest_extreme_coins": COINS,
    }
