# SPDX-License-Identifier: MIT
"""A malicious gateway learns the odds of one answer from the firmware, and no more.

`peel_research.promise.verified_gateway` explores and counts. The device is the application with its files in memory.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from functools import partial
from math import inf
from types import ModuleType
from typing import Any

import pytest
from test_coins import QuickBoard

from host_board import bundle
from peel_core import Profile
from peel_core.coin_receipts import CoinReceipt, write_coin_receipt
from peel_core.coins import split_frames
from peel_device.app import App
from peel_device.config import Config
from peel_research.promise.verified_gateway import (
    DEVICE,
    REPORT,
    REPROVISION,
    RESTART,
    Secrets,
    Step,
    coin_profile,
    excess,
    explore,
    honest_steps,
)
from power_cut import MemoryFiles

STEPS = 3


class FirmwareDevice:
    """The application, as the explorer sees a device."""

    def __init__(self, core: ModuleType, profile: Profile, secrets: Secrets) -> None:
        self.profile = profile
        self.reported = 0
        self.coin_keys: list[bytes] = []
        self._core = core
        self._secrets = secrets
        self._files = MemoryFiles()
        self._provision(1)

    def _provision(self, first: int) -> None:
        """Begin with a fresh bundle: other keys, and higher numbers."""
        key = f"{first:032x}"
        self._config = Config(_bundle(self.profile, coin_key=key, receipt_key=key, first_number=first))
        self.coin_keys = [*self.coin_keys, bytes.fromhex(key)]
        self._boot()

    def _boot(self) -> None:
        self._app = App(self._config, self._core, QuickBoard(), self._files, "peel")
        self._app.start()

    def __deepcopy__(self, memo: dict[int, Any]) -> FirmwareDevice:
        twin = copy.copy(self)
        entropy = self._app._entropy
        memo |= {id(each): each for each in (self._core, self._config, entropy)}
        twin._files = copy.deepcopy(self._files, memo)
        twin._secrets = copy.deepcopy(self._secrets, memo)
        twin._app = copy.deepcopy(self._app, memo)
        return twin

    def take(self, step: Step) -> list[bytes]:
        if isinstance(step, CoinReceipt):
            self._app.settle(write_coin_receipt(self._config.receipt_key.reveal(), DEVICE, step))
        elif step == REPORT and not self.reported:
            self._app.report()
            self.reported = next(iter(self._app.outbox.numbers), 0)
        elif step == RESTART:
            self._boot()
        elif step == REPROVISION:
            self._provision(self._coins._next)
        return list(self._messages())

    def _messages(self) -> Iterator[bytes]:
        app, start = self._app, self._app.ledger.next_number
        if self._coins.wants_batch(start):
            self._coins.make_batch(start, self._secrets)
        messages = app._messages
        assert messages is not None
        while messages.waiting:
            yield from split_frames(self.profile, messages.next())
            messages.sent()

    @property
    def _coins(self) -> Any:
        assert self._app.coins is not None
        return self._app.coins

    def state(self) -> Hashable:
        coins = self._coins
        pending = coins.pending and (coins.pending.count, coins.pending.seed, tuple(coins.pending.runs))
        batches = tuple((batch.first, batch.audit, batch.challenged) for batch in coins._batches)
        numbers = coins._floor, coins._next, coins.era, coins._approved, coins._count, coins._opened
        return batches, pending, numbers, self._app.ledger.next_number, self.reported


def _bundle(profile: Profile, **changes: Any) -> dict[str, Any]:
    (block,), (attribute,) = profile.blocks, profile.attributes
    question: dict[str, Any] = {"name": "temperature", "kind": "mean", "weight": 1, "unit": "", "low": -1, "high": 1}
    if block.outcomes > 2:
        question = {"name": "temperature", "kind": "category", "weight": 1, "categories": list(attribute.categories)}
    question |= {"keep": block.odds.keep, "change": block.odds.change}
    made = bundle(
        device=f"{DEVICE:08x}", interval_s=1, sensors={"temperature": {"kind": "trace", "values": [0]}}, **changes
    )
    made["profile"] |= {
        "id": f"{profile.id:08x}",
        "attributes": [question],
        "seed": profile.seed,
        "width": profile.width,
    }
    made["profile"] |= {"quota": 1000, "audits": profile.audits, "offline": profile.offline, "bucket": profile.bucket}
    return made


@pytest.mark.parametrize("symbols", [2, 3])
def test_a_malicious_gateway_learns_the_odds(core: ModuleType, symbols: int) -> None:
    profile = coin_profile(0.7, symbols)
    build = partial(FirmwareDevice, core, profile)
    steps = honest_steps(profile)
    explored = explore(build, STEPS, steps[:2], steps[:3], steps)
    assert {len(entries) for _, entries, _ in explored.sights} == {0, 1}, "at most one entry of a number is opened"
    assert excess(build, explored) == 0


class _Forgetful(FirmwareDevice):
    """A device that forgets which numbers it has answered."""

    def take(self, step: Step) -> list[bytes]:
        if isinstance(step, CoinReceipt):
            self._coins.pending, self._coins._count = None, 0
            for batch in self._coins._batches:
                batch.challenged = 0
        return super().take(step)


def test_the_explorer_finds_a_device_that_answers_twice(core: ModuleType) -> None:
    profile = coin_profile(0.7, 2)
    build = partial(_Forgetful, core, profile)
    explored = explore(build, 1, honest_steps(profile))
    assert {len(entries) for _, entries, _ in explored.sights} == {1, 2}
    assert excess(build, explored) == inf
