# SPDX-License-Identifier: MIT
"""Verified coins from commitment to opening, with an honest gateway that asserts what the device must never do."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
from coin_gateway import CHANGE, KEEP, TABLE, DirectLink, Gateway

from host_board import PacedBoard, bundle
from peel_core.coins import COMMITMENT, OPENING, opening_bytes
from peel_device import coins as device_coins
from peel_device.app import App
from peel_device.config import Config
from peel_device.errors import StorageError
from peel_device.storage import sealed
from power_cut import FullFiles, MemoryFiles

HOME = "peel/lab-0000002a/"
FOLDER = HOME + "coins/"
VERIFIED: dict[str, Any] = {
    "profile__audits": 8,
    "profile__offline": 60,
    "profile__bucket": 30,
    "profile__quota": 80,
    "profile__period": 60,
    "interval_s": 1,
    "sensors__temperature": {"kind": "trace", "values": [50]},
    "sensors__soil": {"kind": "trace", "values": [1]},
}
"""One report per second. Both readings are at the top of their range, so the answer is always 1."""


class QuickBoard(PacedBoard):
    """A board whose pauses only move its clock."""

    def pause(self, milliseconds: int) -> None:
        self.paces.at += milliseconds


def verified(**changes: Any) -> Config:
    return Config(bundle(**(VERIFIED | changes)))


class World:
    """A device, its flash and its gateway. It can be started again at any time."""

    def __init__(
        self, core: ModuleType, files: MemoryFiles | None = None, gateway: Gateway | None = None, **changes: Any
    ) -> None:
        self.core = core
        self.files = files or MemoryFiles()
        self.config = gateway.config if gateway else verified(**changes)
        self.gateway = gateway or Gateway(self.config)
        self.board = QuickBoard()
        self.boot()

    def boot(self, **changes: Any) -> None:
        """Start the device, perhaps with another bundle."""
        if changes:
            self.config = self.gateway.config = verified(**changes)
        self.app = App(self.config, self.core, self.board, self.files, "peel")
        self.app.start()
        self.link = DirectLink(self.app, self.gateway.take, self.gateway.receipt)
        self.app.link = self.link  # type: ignore[assignment]

    @property
    def coins(self) -> device_coins.Coins:
        """The batches of the device."""
        assert self.app.coins is not None
        return self.app.coins

    def run(self, seconds: int, *, bucket: int = 10) -> None:
        """Run for some time. Every `bucket` seconds the gateway challenges what it has."""
        end = self.board.paces.at + 1000 * seconds
        challenge_at = self.board.paces.at + 1000 * bucket
        while self.board.paces.at < end:
            self.app.step()
            if self.board.paces.at >= challenge_at:
                self.gateway.end_bucket()
                challenge_at += 1000 * bucket

    def until_approved(self) -> None:
        """Run until the device may report."""
        for _ in range(1000):
            if self.coins.approved(self.app.ledger.next_number):
                return
            self.app.step()
        raise AssertionError("no batch was approved")

    def secrets(self) -> dict[int, bytes]:
        """Return the secrets on flash by the first numbers of their batches."""
        return secrets(self.files)


def secrets(files: MemoryFiles) -> dict[int, bytes]:
    """Return the secrets on a flash by the first numbers of their batches. An overwritten one is not returned."""
    found = {}
    for path, data in files.kept.items():
        name = path.removeprefix(FOLDER)
        if path.startswith(FOLDER + "b") and data[:16] != bytes(16):
            found[int(name[1:], 16)] = data[:16]
    return found


@pytest.fixture
def world(core: ModuleType) -> World:
    return World(core)


def test_reports_are_audited_challenged_opened_and_counted(world: World) -> None:
    world.run(400)
    gateway = world.gateway
    assert len(gateway.counted) > 350
    assert not gateway.refused
    assert len(gateway.reports) - len(gateway.counted) < 30, "the rest waits for the end of its bucket"
    used = sorted(gateway.reports)
    revealed = [n for first, row in gateway.batches.items() for n in row.numbers(first, revealed=True)]
    expected = [n for n in range(1, used[-1] + 1) if n not in revealed]
    assert used == expected, "every number that was not revealed, in order"
    assert world.app.birth()["approved"] >= 96 - 24
    assert world.app.birth()["unopened"] < 30
    assert world.app.throttled <= 2


def test_counted_outcomes_are_a_fair_toss_of_the_coin(world: World) -> None:
    world.run(1000)
    counted = list(world.gateway.counted.values())
    mean = len(counted) * KEEP / TABLE
    assert len(counted) > 950
    assert abs(sum(counted) - mean) < 6 * (mean * CHANGE / TABLE) ** 0.5


def test_closed_batches_leave_nothing_on_flash(world: World) -> None:
    world.run(400)
    done = [
        first
        for first, row in world.gateway.batches.items()
        if all(number in world.gateway.counted for number in row.numbers(first, revealed=False))
    ]
    assert len(done) > 10
    world.app.link.tend()
    names = " ".join(world.files.kept)
    for first in done:
        assert f"{first:012x}" not in names
    assert len(world.secrets()) < 8


def test_the_reserve_lasts_for_two_time_buckets(core: ModuleType) -> None:
    """Two buckets of 90 seconds at 80 reports a minute: 240 numbers."""
    world = World(core, profile__bucket=90)
    world.run(100)
    assert 240 - 24 <= world.coins.approved(world.app.ledger.next_number) <= 240


def test_the_reserve_lasts_while_the_gateway_is_away(world: World) -> None:
    """Offline for 60 seconds at 80 reports a minute: 80 numbers, in batches of 24."""
    world.run(100)
    approved = world.coins.approved(world.app.ledger.next_number)
    assert 96 - 24 <= approved <= 96
    made, before = world.app.ledger.next_number, world.app.throttled
    world.link.online = world.link.up = False
    world.run(150)
    assert len(world.app.outbox) >= approved
    assert world.app.throttled > before, "without blame: it waits for numbers"
    assert world.app.birth()["approved"] == 0
    world.link.online = True
    world.run(100)
    assert len([n for n in world.gateway.counted if n >= made]) > approved
    assert world.app.lost == 0


def test_quota_counts_only_numbers_that_were_not_revealed(core: ModuleType) -> None:
    world = World(core, profile__quota=100, profile__period=100)
    world.run(1000)
    assert 850 <= len(world.gateway.reports) <= 1000, "89 per 100 seconds, and a burst"
    assert max(world.gateway.reports) > 1100
    assert world.app.ledger.spent_q20 >> 20 <= len(world.gateway.reports) + 64


@pytest.mark.parametrize("limit", [{"profile__lifetime": 100}, {"last_number": 100}])
def test_no_number_above_the_lifetime_or_the_bundle_is_used(core: ModuleType, limit: dict[str, Any]) -> None:
    world = World(core, **limit)
    world.run(400)
    assert sorted(world.gateway.batches) == [1, 33, 65], "whole batches only"
    assert len(world.gateway.reports) == 3 * 24
    assert world.app.left == 0
    assert world.app.birth()["left"] == 0
    world.gateway.end_bucket()
    world.run(20)
    assert len(world.gateway.counted) == 3 * 24, "the last ones are opened too"
    assert world.secrets() == {}


def test_sixteen_audits(core: ModuleType) -> None:
    world = World(core, profile__audits=16)
    world.run(300)
    assert len(world.gateway.counted) > 250
    assert all(bin(row.audit).count("1") == 16 for row in world.gateway.batches.values())


def test_a_restart_sends_everything_again_that_is_not_confirmed(world: World) -> None:
    world.link.online = False
    world.run(5)
    assert world.coins.unapproved is not None
    lost: list[bytes] = []
    world.link = DirectLink(world.app, lost.append, lambda: None)
    world.app.link = world.link  # type: ignore[assignment]
    world.run(5)
    assert [(frame[1], len(frame)) for frame in lost] == [(COMMITMENT, 536)], "once"
    world.boot()
    world.run(1)
    assert world.gateway.frames[COMMITMENT, 1] == lost[0], "the same bytes"
    world.run(30)
    assert world.gateway.reports


@pytest.mark.parametrize("kind", [1, 2, 3])
def test_what_no_receipt_confirms_goes_again(world: World, kind: int) -> None:
    """The network loses the first message of a kind. The device sends the same bytes after its pause."""
    lost: list[bytes] = []

    def deliver(payload: bytes) -> None:
        if payload[1] == kind and not lost:
            lost.append(payload)
        else:
            world.gateway.take(payload)

    world.link = DirectLink(world.app, deliver, world.gateway.receipt)
    world.app.link = world.link  # type: ignore[assignment]
    world.run(300)
    assert len(lost) == 1
    assert len(world.gateway.counted) > 80
    assert not world.gateway.refused


def test_openings_go_in_payloads_of_one_segment(world: World) -> None:
    sizes: list[int] = []

    def deliver(payload: bytes) -> None:
        if payload[1] == OPENING:
            sizes.append(len(payload))
        world.gateway.take(payload)

    world.link = DirectLink(world.app, deliver, world.gateway.receipt)
    world.app.link = world.link  # type: ignore[assignment]
    world.run(200, bucket=60)
    each = 24 + opening_bytes(TABLE)
    assert max(sizes) == 1400 // each * each
    assert len(sizes) < 40


def test_a_new_era_voids_what_was_audited_before(world: World) -> None:
    world.run(100)
    before = max(world.gateway.reports)
    old = world.secrets()
    world.link.online = False
    world.run(5)
    assert len(world.app.outbox)
    world.link.online, world.link.up = True, False
    old_receipt = world.gateway.receipt()
    world.gateway.new_era()
    world.run(1)
    assert not set(world.secrets().values()) & {old[first] for first in old if first <= before}
    world.run(60)
    assert world.gateway.counted
    era = world.coins.era
    world.app.settle(old_receipt)
    assert world.coins.era == era, "an older receipt is ignored"
    reports = [n for n in world.gateway.reports if n > before]
    assert all(not world.gateway.batches[world.gateway.first_of(n)].void for n in reports)
    world.boot()
    world.run(60)
    assert len(world.gateway.counted) > 150


@pytest.mark.parametrize("audited", [False, True])
def test_a_release_voids_all_batches(world: World, audited: bool) -> None:
    """The operator drops the batches, perhaps while one waits for its audit. The device uses none of them any more."""
    world.run(64)
    if audited:
        world.gateway.end_bucket()
        world.app.link.tend()
    before = world.secrets()
    world.gateway.release()
    world.run(2)
    assert not set(before) & {first for first in world.secrets() if first < world.gateway.dropped}
    world.boot()
    world.run(60)
    assert not world.gateway.refused
    assert max(world.gateway.counted) > world.gateway.dropped


def test_a_fresh_bundle_voids_the_batches_of_the_one_before(world: World) -> None:
    world.run(50)
    world.link.online = False
    world.run(5)
    assert world.secrets()
    kept = len(world.app.outbox)
    assert kept
    world.boot(first_number=1000)
    assert world.secrets() == {}
    assert len(world.app.outbox) == 0, "their reports could never be opened"
    for row in world.gateway.batches.values():
        row.void = True
    world.gateway.asked, world.gateway.unchallenged = None, []
    world.run(100)
    assert max(world.gateway.counted) > 1000
    assert min(first for first in world.gateway.batches if first > 200) == 1000


def test_an_unverified_bundle_removes_the_batches(world: World) -> None:
    world.run(50)
    unverified = bundle(first_number=1000, mqtt__port=1)
    app = App(Config(unverified), world.core, world.board, world.files, "peel")
    app.start()
    assert [path for path in world.files.kept if path.startswith(FOLDER)] == []
    assert app.coins is None
    assert "approved" not in app.birth()


def test_reports_of_an_unverified_bundle_outlive_the_change(core: ModuleType) -> None:
    files = MemoryFiles()
    app = App(Config(bundle(mqtt__port=1)), core, QuickBoard(), files, "peel")
    app.start()
    app.report()
    world = World(core, files, first_number=500)
    assert world.app.outbox.numbers == [1]


def test_an_old_flash_image_reports_under_new_batches_only(world: World) -> None:
    world.run(60)
    image = MemoryFiles(world.files.kept)
    world.run(60)
    highest, before = max(world.gateway.reports), dict(world.secrets())
    world.files = image
    world.boot()
    world.run(3)
    assert not set(world.secrets()) & set(before), "the old batches are void"
    world.gateway.asked, world.gateway.unchallenged = None, []
    world.run(100)
    assert max(world.gateway.reports) > highest + 100
    assert all(n <= highest or n > max(before) for n in world.gateway.reports)


def test_a_number_that_nobody_challenges_is_given_up(world: World) -> None:
    world.run(65)
    left = world.gateway.first_of(world.gateway.unchallenged.pop())  # as if it had no reading
    world.run(600)
    assert left in world.secrets()
    world.run(500)
    assert left not in world.secrets()
    assert len(world.secrets()) < 10


class CountingFiles(MemoryFiles):
    """Counts writes and removals in the folder of coins."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.removed = 0

    def write(self, path: str, data: bytes) -> None:
        if path.startswith(FOLDER):
            self.sizes.append(len(data))
        super().write(path, data)

    def remove(self, path: str) -> None:
        self.removed += path.startswith(FOLDER) and path in self.kept
        super().remove(path)


def test_the_flash_wears_as_little_as_documented(core: ModuleType) -> None:
    files = CountingFiles()
    world = World(core, files)
    world.run(100)
    del files.sizes[:]
    files.removed = 0
    batches, opened = len(world.gateway.batches), world.gateway.opened
    world.run(720, bucket=20)
    batches, opened = len(world.gateway.batches) - batches, world.gateway.opened - opened
    assert batches == 30
    assert abs(files.sizes.count(116) - 2 * batches) <= 2
    assert abs(files.sizes.count(37) - 4 * batches) <= 2
    assert abs(files.sizes.count(304) - 2 * opened) <= 2
    assert 2 * (batches + opened) - 4 <= files.sizes.count(27) <= 2 * batches + 4 * opened
    assert abs(files.removed - 3 * batches) <= 3
    assert set(files.sizes) == {27, 37, 116, 304}


def test_a_full_flash_loses_reports_and_nothing_else(core: ModuleType) -> None:
    files = FullFiles(6000)
    world = World(core, files)
    world.run(60)
    world.link.online = False
    files.room = sum(map(len, files.kept.values())) + 100
    world.run(60)
    files.room = 20_000
    world.link.online = True
    world.run(200)
    assert len(world.gateway.counted) > 150
    assert not world.gateway.refused


def test_a_lost_state_stops_the_device_until_it_has_a_fresh_bundle(world: World) -> None:
    world.run(30)
    for slot in (0, 1):
        world.files.kept[f"{FOLDER}state.{slot}"] = b"rotten"
    with pytest.raises(StorageError, match="fresh bundle"):
        world.boot()
    for slot in (0, 1):
        del world.files.kept[f"{FOLDER}state.{slot}"]
    with pytest.raises(StorageError, match="fresh bundle"):
        world.boot()
    for row in world.gateway.batches.values():
        row.void = True
    world.gateway.asked, world.gateway.unchallenged = None, []
    world.boot(first_number=1000)
    world.run(60)
    assert max(world.gateway.reports) > 1000


def test_one_damaged_copy_changes_nothing(world: World) -> None:
    world.run(60)
    for path in sorted(world.files.kept):
        if path.startswith(FOLDER) and path[-2:] in (".0", ".1"):
            whole = MemoryFiles(world.files.kept)
            world.files.kept[path] = b"\0" + world.files.kept[path][1:]
            before = world.coins.approved(1)
            world.boot()
            assert world.coins.approved(1) == before, path
            world.files = whole
    world.boot()
    world.run(60)
    assert not world.gateway.refused


@pytest.mark.parametrize("both", [False, True], ids=["one file", "both copies"])
def test_damage_to_any_file_breaks_no_rule(world: World, both: bool) -> None:
    """Each file is altered or lost, with its copy or alone. The gateway asserts that no answer changes."""
    world.run(64)
    world.gateway.end_bucket()
    world.app.link.tend()
    whole, gateway = dict(world.files.kept), world.gateway
    paths = sorted(path for path in whole if path.startswith(FOLDER))
    names = {path.partition(".")[0] for path in paths} if both else set(paths)
    assert len(names) > 6
    for name in names:
        for damaged in (None, b"", b"\xff" * 40):
            world.files, world.gateway = MemoryFiles(whole), gateway.fork()
            for path in [path for path in paths if path.startswith(name)]:
                if damaged is None:
                    del world.files.kept[path]
                else:
                    world.files.kept[path] = damaged
            try:
                world.boot()
            except StorageError:
                assert both
                assert "state" in name
                continue
            world.run(12, bucket=3)


def test_a_lost_audit_is_not_replaced_by_another(world: World) -> None:
    world.run(60)
    first = max(number for number in world.secrets() if number in world.gateway.batches)
    for damaged in (None, b"rotten"):
        for slot in (0, 1):
            path = f"{FOLDER}s{first:012x}.{slot}"
            if damaged is None:
                del world.files.kept[path]
            else:
                world.files.kept[path] = damaged
        world.boot()
        assert first not in world.secrets()
        world.run(60)
        first = max(number for number in world.secrets() if number in world.gateway.batches)


def test_a_damaged_batch_is_void(world: World) -> None:
    world.run(60)
    next_number = world.app.ledger.next_number
    first = world.gateway.first_of(world.coins.usable(next_number, 1)[0])
    path = f"{FOLDER}b{first:012x}"
    world.files.kept[path] = world.files.kept[path][:20] + b"\0\0\0" + world.files.kept[path][23:]
    world.boot()
    assert path not in world.files.kept
    assert world.gateway.first_of(world.coins.usable(next_number, 1)[0]) > first


def test_a_secret_that_decays_unnoticed_sends_nothing(world: World) -> None:
    """A wrong secret with a right checksum makes other roots than those that were stored."""
    world.run(60)
    first = world.gateway.first_of(max(world.gateway.reports))
    path = f"{FOLDER}b{first:012x}"
    record = bytearray(world.files.kept[path][:-4])
    record[0] ^= 1
    world.files.kept[path] = sealed(bytes(record))
    world.coins._held = None
    world.gateway.end_bucket()
    world.run(2)
    assert path not in world.files.kept
