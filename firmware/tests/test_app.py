# SPDX-License-Identifier: MIT
"""The whole application with the C core, a real broker and files that the test can inspect."""

from __future__ import annotations

import itertools
import os
from types import ModuleType
from typing import Any

import pytest
from inbox import Inbox

from host_board import (
    BUNDLE,
    CATEGORY_PROFILE,
    HASHED_PROFILE,
    ROOM_PROFILE,
    ROOM_READINGS,
    ROOM_SENSORS,
    HostBoard,
    PacedBoard,
    bundle,
)
from peel_core import primitives
from peel_core.frame import HEADER_BYTES, NUMBER
from peel_core.hash_family import hash_count
from peel_core.hashing import hashed
from peel_device.app import AWAKE_MS, App
from peel_device.config import Config
from peel_device.errors import EntropyError
from peel_device.kinds import READING_ONE
from peel_device.sensors import LASTING
from peel_tools.servers import free_port
from peel_tools.servers.broker import Broker
from power_cut import FullFiles, MemoryFiles, WitnessFiles

SEAL_KEY = bytes.fromhex("00112233445566778899aabbccddeeff")
INDEX_KEY = bytes.fromhex("ffeeddccbbaa99887766554433221100")
WIDTH = 48


def make_app(core: ModuleType, port: int, files: MemoryFiles, board: HostBoard | None = None, **changes: Any) -> App:
    settings = Config(bundle(mqtt__port=port, **changes))
    app = App(settings, core, board or HostBoard(), files, "peel")
    app.start()
    return app


def rule_of(keep: int, change: int) -> int:
    """Return the four bytes of a frame that state these odds."""
    return keep | change << 8


def with_odds(profile: dict[str, Any], keep: int, change: int) -> dict[str, Any]:
    """Return the profile of a bundle with other odds."""
    attributes = [attribute | {"keep": keep, "change": change} for attribute in profile["attributes"]]
    return profile | {"attributes": attributes}


def numbers(frames: list[bytes]) -> list[int]:
    return [NUMBER.of(frame) for frame in frames]


def test_reports_arrive_sealed_with_the_odds_of_the_bundle(core: ModuleType, broker: Broker, inbox: Inbox) -> None:
    app = make_app(core, broker.port, MemoryFiles())
    for _ in range(10):
        app.step()
    frames = inbox.frames(10)
    assert numbers(frames) == list(range(1, 11))
    for frame in frames:
        rule, _ = core.frame_open(SEAL_KEY, WIDTH, frame)
        assert rule == rule_of(8, 3)


def test_edited_odds_show_in_the_frame(core: ModuleType, broker: Broker, inbox: Inbox) -> None:
    attributes = with_odds(BUNDLE["profile"], 20, 1)["attributes"]
    make_app(core, broker.port, MemoryFiles(), profile__attributes=attributes).step()
    rule, _ = core.frame_open(SEAL_KEY, WIDTH, inbox.frames(1)[0])
    assert rule == rule_of(20, 1)


def test_a_category_is_hashed_by_what_the_number_assigns(core: ModuleType, broker: Broker, inbox: Inbox) -> None:
    """With the odds 255:1 the answer is the hash of the reading, except in one report of 128."""
    profile = with_odds(HASHED_PROFILE, 255, 1) | {"quota": 1000}
    app = make_app(
        core,
        broker.port,
        MemoryFiles(),
        profile=profile,
        sensors={"mode": {"kind": "trace", "values": [0, 41_000, 65_534]}},
    )
    for _ in range(30):
        app.step()
    symbols = {primitives.codeword(profile["seed"], WIDTH, symbol, 0): symbol for symbol in range(3)}
    true = 0
    for frame, category in zip(inbox.frames(30), itertools.cycle([0, 41_000, 65_534]), strict=False):
        rule, trits = core.frame_open(SEAL_KEY, WIDTH, frame)
        assert rule == rule_of(255, 1)
        _, word = primitives.index_words(INDEX_KEY, frame[:HEADER_BYTES])
        true += symbols[trits] == hashed(word * hash_count(3, 65535) >> 32, category, 3, 65535)
    assert true >= 23, "as many in all but one run of a billion"


ROOM_SLOTS = (0, 1, 2, 3, 3, 4, 4, 5, 5, 6, 7)
"""The question of each slot of ROOM_PROFILE: those of the ladder have weight 2."""
NO_READING_COLUMN = 12


def room_symbols(frame: bytes) -> set[tuple[int, int]]:
    """Return the symbols that may answer the question which a report's number assigns, given ROOM_READINGS."""
    word, hash_word = primitives.index_words(INDEX_KEY, frame[:HEADER_BYTES])
    question = ROOM_SLOTS[word * len(ROOM_SLOTS) >> 32]
    reading = ROOM_READINGS[question]
    if question == 7:
        return {(9 + int(hashed(hash_word * hash_count(3, 5000) >> 32, reading, 3, 5000)), 0)}
    if question == 6:
        return {(6 + reading, 0)}
    return {(question, 0), (question, 1)} if abs(reading) < READING_ONE else {(question, int(reading < 0))}


@pytest.mark.parametrize("fails", [False, True], ids=["complete", "without temperature"])
def test_a_mixed_board_answers_the_question_that_the_number_assigns(
    core: ModuleType, broker: Broker, inbox: Inbox, fails: bool
) -> None:
    """With the odds 255:1 an answer is true, except in one report of 128. A missing reading always shows."""
    profile = with_odds(ROOM_PROFILE, 255, 1) | {"quota": 10_000}
    temperature = {"temperature": {"kind": "trace", "values": [None]}} if fails else {}
    app = make_app(core, broker.port, MemoryFiles(), profile=profile, sensors=ROOM_SENSORS | temperature)
    for _ in range(80):
        app.step()
    codewords = {
        primitives.codeword(profile["seed"], WIDTH, column, minus): (column, minus)
        for column in range(NO_READING_COLUMN + 1)
        for minus in (0, 1)
    }
    seen = set()
    true = 0
    for frame in inbox.frames(80):
        rule, trits = core.frame_open(SEAL_KEY, WIDTH, frame)
        expected = room_symbols(frame)
        column = next(iter(expected))[0]
        seen.add(column)
        if fails and column < 3:
            assert codewords[trits] == (NO_READING_COLUMN, 0)
        true += codewords[trits] in ({(NO_READING_COLUMN, 0)} if fails and column < 3 else expected)
        assert rule == rule_of(255, 1)
    assert true >= 70, "as many in all but one run of a billion"
    assert seen >= set(range(6)) | {8}, "every question of a sign, and the door"


def test_the_birth_tells_the_counts(core: ModuleType, broker: Broker, inbox: Inbox) -> None:
    make_app(core, broker.port, MemoryFiles()).step()
    birth = inbox.status()
    assert birth["state"] == "online"
    assert (birth["dropped"], birth["lost"], birth["skipped"], birth["throttled"]) == (0, 0, 0, 0)
    assert birth["board"] == "host"


def test_a_device_with_nothing_to_report_says_how_it_is_now_and_then(
    core: ModuleType, broker: Broker, inbox: Inbox
) -> None:
    board = PacedBoard()
    soil = {"kind": "trace", "values": [0.5, *["broken"] * 20]}
    app = make_app(core, broker.port, MemoryFiles(), board, interval_s=60, confirm="broker", sensors__soil=soil)
    app.step()
    birth = inbox.status()
    assert (birth["interval_ms"], birth["skipped"]) == (60_000, 0)
    for _ in range(5):
        board.paces.at += 50_000
        for _ in range(3):  # a due ping is sent and answered
            app.step()
    assert inbox.status()["skipped"] == app.sampler.failed > 0
    app.step()
    app.link.stop()
    assert inbox.status()["state"] == "offline", "nothing was said in between"


def test_a_sensor_that_fails_from_the_start_is_told_at_once_and_when_it_works(
    core: ModuleType, broker: Broker, inbox: Inbox
) -> None:
    mode = {"mode": {"kind": "trace", "values": [float("nan"), float("nan"), "off"]}}
    app = make_app(core, broker.port, MemoryFiles(), profile=CATEGORY_PROFILE, sensors=mode)
    app.step()
    said = inbox.status()
    assert (said["state"], said["failing"], said["skipped"]) == ("online", "mode: it gave nan", 1)
    while app.sampler.failing:
        app.step()
    assert inbox.status()["failing"] == ""


def test_a_board_reports_without_a_failing_sensor_and_names_it(core: ModuleType, broker: Broker, inbox: Inbox) -> None:
    soil = {"kind": "trace", "values": [0.5, *[float("nan")] * 10]}
    app = make_app(core, broker.port, MemoryFiles(), sensors__soil=soil)
    for _ in range(2 + LASTING):
        app.report()
    app.step()
    said = inbox.status()
    assert (said["failing"], said["skipped"], said["no_reading"]) == ("soil: it gave nan", LASTING - 1, 2)
    assert numbers(inbox.frames(3)) == [1, 2, 3]


def test_an_outage_is_on_flash_before_the_first_report_without_the_reading(core: ModuleType) -> None:
    files = WitnessFiles()
    app = make_app(core, free_port(), files, sensors__soil={"kind": "trace", "values": [float("nan")]})
    outages_at_frames = []

    def witness(state: MemoryFiles) -> None:
        if any(len(name) == 12 for name in state.names("peel/lab-0000002a/outbox")):
            outages_at_frames.append("peel/lab-0000002a/outages.1" in state.kept)

    files.witness = witness
    app.report()
    assert outages_at_frames
    assert all(outages_at_frames)


def test_an_outage_that_cannot_be_written_loses_the_report(core: ModuleType) -> None:
    app = make_app(core, free_port(), MemoryFiles(), sensors__soil={"kind": "trace", "values": [float("nan")]})
    full = FullFiles(0)
    app._outages._slots._files = full
    app.report()
    assert (app.lost, len(app.outbox), app.no_reading) == (1, 0, 0)
    full.room = 1000
    app.report()
    assert (app.lost, len(app.outbox), app.no_reading) == (1, 1, 1)


def test_counts_are_said_again_while_reports_flow(core: ModuleType, broker: Broker, inbox: Inbox) -> None:
    board = PacedBoard()
    app = make_app(core, broker.port, MemoryFiles(), board, interval_s=50, confirm="broker")
    for _ in range(73):
        app.step()
        board.paces.at += 50_000
    app.link.stop()
    assert [inbox.status()["state"] for _ in range(3)] == ["online", "online", "offline"]


def test_an_outage_fills_the_outbox_which_drains_in_order(core: ModuleType, broker: Broker, inbox: Inbox) -> None:
    files = MemoryFiles()
    away = make_app(core, free_port(), files, outbox=10)
    for _ in range(25):
        away.report()
    assert (len(away.outbox), away.outbox.dropped) == (10, 15)
    stored = dict(away.outbox.unsent(10))

    back = make_app(core, broker.port, files, outbox=10)
    back.link.drain(back.outbox, back.birth())
    assert inbox.status()["dropped"] == 15
    frames = inbox.frames(10)
    assert numbers(frames) == list(range(16, 26))
    assert frames == list(stored.values()), "a retry sends the stored bytes and spends nothing"


def test_no_number_is_ever_used_for_two_frames_whenever_the_power_goes(core: ModuleType) -> None:
    """Cut the power after every file operation of a report, then boot and continue. No two different frames share a number."""
    seen: dict[int, bytes] = {}
    files = MemoryFiles()
    for cut in itertools.chain(range(40), range(40)):
        interrupted = CountingFiles(files.kept, cut)
        try:
            app = make_app(core, free_port(), interrupted)
            for _ in range(12):
                app.report()
        except PowerCut:
            pass
        files = MemoryFiles(interrupted.kept)
        box = make_app(core, free_port(), files).outbox
        for number, frame in box.unsent(1000):
            assert seen.setdefault(number, frame) == frame
    assert len(seen) > 100


class PowerCut(BaseException):
    """The power is cut."""


class CountingFiles(MemoryFiles):
    """Files that cut the power after so many operations, in the middle of the last one."""

    def __init__(self, kept: dict[str, bytes], operations: int) -> None:
        super().__init__(kept)
        self._left = operations

    def write(self, path: str, data: bytes) -> None:
        if self._left == 0:
            self.kept[path] = data[: len(data) // 2]
            raise PowerCut
        self._left -= 1
        super().write(path, data)


def test_a_full_flash_boots_and_reports_by_dropping_the_oldest(core: ModuleType) -> None:
    files = FullFiles(100_000)
    away = make_app(core, free_port(), files, outbox=500)
    for _ in range(40):
        away.report()
    for name in [name for name in files.kept if "seed" in name or "ledger" in name]:
        if name.endswith(".0"):
            del files.kept[name]  # so that the next write of each needs new space
    files.room = sum(len(content) for content in files.kept.values())

    booted = make_app(core, free_port(), files, outbox=500)
    assert 0 < booted.outbox.dropped < 10
    for _ in range(70):
        booted.report()
    assert booted.lost == 0
    assert len(booted.outbox) + booted.outbox.dropped == 110


def test_a_fault_of_the_flash_that_is_not_want_of_room_drops_nothing(core: ModuleType) -> None:
    files = BrokenFiles()
    make_app(core, free_port(), files).report()
    files.broken = True
    with pytest.raises(OSError):
        make_app(core, free_port(), files)
    files.broken = False
    assert len(make_app(core, free_port(), files).outbox) == 1


class BrokenFiles(MemoryFiles):
    """A flash that refuses every write."""

    broken = False

    def write(self, path: str, data: bytes) -> None:
        if self.broken:
            raise OSError(5, "input/output error")
        super().write(path, data)


def test_the_quota_throttles(core: ModuleType) -> None:
    app = make_app(core, free_port(), MemoryFiles(), profile__quota=40, profile__period=36000)
    for _ in range(10):
        app.report()
    assert len(app.outbox) == 3, "a burst of 5, less what a block of 3 may leave"
    assert app.throttled == 7
    assert app._due - app._clock.now() > 900_000


def test_a_device_whose_lifetime_is_over_says_so_and_rests(core: ModuleType, broker: Broker, inbox: Inbox) -> None:
    files = MemoryFiles()
    app = make_app(core, broker.port, files, profile__lifetime=3, confirm="broker")
    assert app.birth()["left"] == 3
    for _ in range(6):
        app.step()
    assert numbers(inbox.frames(3)) == [1, 2, 3]
    status = inbox.status()
    assert (status["state"], status["left"], status["throttled"]) == ("online", 0, 0)
    assert app._due - app._clock.now() > 86_000_000
    app.link.stop()
    assert inbox.status()["asleep"]
    make_app(core, broker.port, files, PacedBoard(), profile__lifetime=3, sleep="light", confirm="broker").step()
    status = inbox.status()
    assert (status["state"], status["left"]) == ("online", 0), "again after a boot, though nothing is left to send"
    status = inbox.status()
    assert (status["asleep"], status["left"]) == (True, 0)


def test_without_randomness_of_its_own_a_device_says_why_and_reports_nothing(
    core: ModuleType, broker: Broker, inbox: Inbox
) -> None:
    files = MemoryFiles()
    board = HostBoard()
    board.sources = lambda: [("adc noise", bytes, 64, 128), ("timing", os.urandom, 64, 16)]  # type: ignore[method-assign]  # of this board alone
    with pytest.raises(EntropyError, match="16 bits of 128"):
        make_app(core, broker.port, files, board, seed=os.urandom(32).hex())
    status = inbox.status()
    assert (status["state"], status["entropy"], status["refused"]) == ("stopped", 16, ["adc noise"])
    assert not [path for path in files.kept if "seed" in path], "nothing to start the next run with"
    make_app(core, broker.port, files).step()
    status = inbox.status()
    assert (status["state"], status["entropy"], status["refused"]) == ("online", 256, [])


def test_a_failed_sensor_spends_nothing(core: ModuleType) -> None:
    mode = {"mode": {"kind": "trace", "values": [None]}}
    app = make_app(core, free_port(), MemoryFiles(), profile=CATEGORY_PROFILE, sensors=mode)
    spent = app.ledger.spent_q20
    app.report()
    assert (app.sampler.failed, app.ledger.spent_q20, len(app.outbox)) == (1, spent, 0)


def test_light_sleep_says_goodbye_and_comes_back(core: ModuleType, broker: Broker, inbox: Inbox) -> None:
    board = PacedBoard()
    app = make_app(core, broker.port, MemoryFiles(), board, sleep="light", interval_s=5)
    app.step()
    ((kind, slept),) = board.slept
    assert kind == "light"
    assert 5000 - board.paces.at <= slept <= 5000, "what is left of the interval, less the time for the goodbye"
    assert not app.link.up
    assert [inbox.status()["state"], inbox.status()["state"]] == ["online", "offline"]


def test_deep_sleep_keeps_count_over_the_reboots(core: ModuleType, broker: Broker, inbox: Inbox) -> None:
    files = MemoryFiles()
    for _ in range(3):
        board = HostBoard()
        app = make_app(core, broker.port, files, board, sleep="deep", interval_s=5, confirm="broker")
        with pytest.raises(SystemExit):
            app.step()
        assert board.slept[0][0] == "deep"
    assert numbers(inbox.frames(3)) == [1, 2, 3], "one number per wake, none skipped"


class WokenBoard(HostBoard):
    """A board that woke normally from its sleep."""

    def woke_from_sleep(self) -> bool:
        return True


def test_no_sleep_is_longer_than_an_esp32_can_be_told(core: ModuleType) -> None:
    """An ESP32's machine.deepsleep takes 31 bits. If the quota asks for more, only the time actually slept is credited."""
    year_ms = 31_536_000_000
    files, board = MemoryFiles(), WokenBoard()
    yearly: dict[str, Any] = {"sleep": "deep", "profile__quota": 1, "profile__period": year_ms // 1000}
    app = make_app(core, free_port(), files, board, **yearly)
    app.report()
    app.report()
    assert (len(app.outbox), app.throttled) == (1, 1)
    app._awake_since -= AWAKE_MS + 1
    with pytest.raises(SystemExit):
        app._rest()
    (slept,) = [milliseconds for _, milliseconds in board.slept]
    assert slept < 2**31
    left = make_app(core, free_port(), files, board, **yearly).ledger.wait()
    assert year_ms - slept - 60_000 < left <= year_ms + 1 - slept


def test_another_identity_has_its_own_numbers(core: ModuleType) -> None:
    files = MemoryFiles()
    first = make_app(core, free_port(), files)
    first.report()
    other = make_app(core, free_port(), files, device="0000002b")
    other.report()
    assert [number for number, _ in other.outbox.unsent(9)] == [1]
    again = make_app(core, free_port(), files)
    again.report()
    assert [number for number, _ in again.outbox.unsent(9)] == [1, 33], "the first block of 32 stays spent"


def test_the_interval_is_kept(core: ModuleType) -> None:
    board = PacedBoard()
    app = make_app(core, free_port(), MemoryFiles(), board, interval_s=0.1)
    made: list[int] = []
    while len(made) < 10:
        before = app.ledger.next_number
        started = board.paces.at
        app.step()
        made += [started] * (app.ledger.next_number - before)
    assert made == list(range(0, 1000, 100))
