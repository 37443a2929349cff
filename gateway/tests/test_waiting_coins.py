# SPDX-License-Identifier: MIT
"""Held reports and stalled devices in listings, totals, metrics and commands, and backups of their database."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from coin_desk import BUCKET, HELD, CoinDesk
from verified import coins_of

from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.queries.exposed import Cases
from peel_gateway.queries.views import Views
from peel_tools.cli import main


@pytest.fixture
def desk(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> Iterator[CoinDesk]:
    made = CoinDesk(tmp_path, rng, monkeypatch)
    yield made
    made.store.close()


def test_a_device_that_does_not_answer_is_stalled_after_two_buckets(desk: CoinDesk) -> None:
    desk.stall()
    asked = desk.now
    assert (desk.device()["held"], desk.device()["stalled"]) == (HELD, None)
    assert (desk.totals(), desk.metric("peel_held_reports")) == ((HELD, 0), HELD)
    desk.now += 2 * BUCKET + 1
    since = desk.device()["stalled"]
    assert since is not None and since.startswith(time.strftime("%Y-%m-%dT%H:%M:", time.gmtime(asked)))
    assert desk.totals() == (HELD, 1)
    assert (desk.metric("peel_stalled_devices"), desk.metric("peel_held_reports")) == (1, HELD)
    other = desk.device(2)
    assert (other["held"], other["stalled"]) == (0, None)


def test_a_device_that_does_not_answer_is_reminded(desk: CoinDesk) -> None:
    talker = desk.stall()
    assert desk.engine.reminders().device.tolist() == [], "it has just been asked"
    reminded = []
    for minute in range(1, 40):
        desk.now += 60
        if desk.engine.reminders().device.tolist() == [1]:
            reminded.append(minute)
        assert desk.engine.reminders().device.tolist() == [], "once"
    assert reminded == [1, 2, 4, 8, 16, 32]
    talker.hear()
    talker.talk()
    desk.now += 3600
    assert desk.engine.reminders().device.tolist() == [], "it has answered"


def test_a_gateway_that_starts_reminds_all_devices_that_have_not_answered(desk: CoinDesk) -> None:
    desk.stall()
    desk.now += 200
    desk.store.close()
    desk.open()
    assert desk.engine.reminders().device.tolist() == [1]


def test_held_reports_do_not_wait_for_a_time_that_only_a_wrong_clock_has_seen(desk: CoinDesk) -> None:
    talker, right = desk.talker(), desk.now
    talker.ready()
    desk.now += 80 * 365 * 86_400
    talker.talk(talker.report(HELD, 0.5))
    desk.now = right + 1
    desk.engine.challenge()
    desk.now += 15 * 60
    assert desk.engine.reminders().device.tolist() == [1], "though the audit that waits seems to come from the future"
    talker.ready()
    talker.hear()
    talker.talk()
    assert (desk.device()["held"], desk.device()["reports"]["accepted"]) == (0, HELD)


def test_a_device_whose_reports_are_held_was_heard(desk: CoinDesk) -> None:
    talker = desk.talker()
    talker.ready()
    assert desk.device()["state"] == "new"
    talker.talk(talker.report(HELD, 0.5))
    assert (desk.device()["state"], desk.device()["last_heard"] is not None) == ("active", True)
    counts = Views(desk.store, lambda: desk.snapshot).device_counts()
    assert (counts.heard, counts.response(desk.now)["silent_seconds"]) == (1, None)
    assert counts.last_report == pytest.approx(desk.now, abs=0.001)


def test_only_devices_with_a_verified_profile_have_waiting_reports(desk: CoinDesk) -> None:
    desk.stall()
    plain = desk.device(3)
    assert plain["held"] is None and plain["stalled"] is None
    assert {each["name"]: each["verified"] for each in desk.views.profiles()} == {"plain": False, "coins": True}


def test_reports_of_exposed_and_revoked_devices_wait_for_nothing(desk: CoinDesk) -> None:
    talker = desk.stall()
    desk.stall(2)
    desk.now += 3 * BUCKET
    assert desk.totals() == (2 * HELD, 2)
    talker.hear()
    number = talker.coins._challenges[1].numbers[0]
    wrong = talker.coins._seal(3, number, bytes(desk.profile(1, 1).opening_bytes))
    assert desk.send([wrong]) == {"coin": 1}
    assert (desk.device()["held"], desk.device()["stalled"]) == (0, None)
    assert desk.totals() == (HELD, 1)
    desk.fleet.revoke([2], reason="stolen", who="ada")
    desk.snapshot = take_snapshot(desk.fleet)
    assert desk.totals() == (0, 0)


def test_a_fleet_without_verified_profiles_has_no_such_columns(desk: CoinDesk, tmp_path: Path) -> None:
    desk.stall()
    assert "held" in desk.type("devices").stdout
    assert "held" not in desk.type("devices", "--profile", "plain").stdout
    listed = CliRunner().invoke(main, ["fleet", "list", str(tmp_path / "fleet")])
    assert listed.exit_code == 0, listed.output
    assert "held" in listed.stdout and "stalled" in listed.stdout
    found = CliRunner().invoke(main, ["fleet", "list", str(tmp_path / "fleet"), "--json"])
    assert [row["held"] for row in json.loads(found.stdout)["items"]] == [HELD, 0, None]


def test_release_says_what_it_did_and_the_trail_keeps_it(desk: CoinDesk) -> None:
    desk.stall()
    done = desk.ask("release", "1", "--reason", "lost its flash", "--who", "ada")
    (item,) = done["items"]
    assert (item["device"], item["action"], item["who"], item["reports"]) == ("00000001", "release", "ada", HELD)
    assert item["cause"] is item["restored"] is None
    assert done["dropped"] == HELD
    (kept,) = desk.ask("audit", "--device", "1")["items"]
    assert kept | {"id": None} == item | {"id": None}
    shown = desk.type("audit").stdout
    assert "release" in shown and "lost its flash" in shown
    assert desk.ask("recount")["agrees"] is True
    assert desk.totals() == (0, 0)
    again = desk.type("release", "1", "--reason", "twice")
    assert again.exit_code == 2 and "nothing to release" in again.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("1", "99"), "00000099: is not registered"),
        (("1", "3"), "00000003: its profile 'plain' has no verified coins"),
        (("1", "2"), "00000002: has no batch of verified coins and no held report"),
    ],
)
def test_a_release_that_is_refused_changes_nothing(desk: CoinDesk, words: tuple[str, ...], said: str) -> None:
    desk.stall()
    before = desk.store.generation()
    done = desk.type("release", *words, "--reason", "x")
    assert done.exit_code == 2 and said in done.output
    assert desk.store.generation() == before
    assert "reason: say why" in desk.type("release", "1", "--reason", " ").output


def test_a_restored_backup_begins_a_new_era(desk: CoinDesk, tmp_path: Path) -> None:
    """Even at once: the mark of the copy is not valid any more."""
    desk.stall()
    before = coins_of(desk.store)
    assert before.held == HELD
    copy = tmp_path / "copy.sqlite"
    assert desk.type("backup", str(copy)).exit_code == 0
    desk.store.close()
    done = desk.type("restore", str(copy))
    assert done.exit_code == 0, done.output
    desk.open()
    desk.send([])
    later = coins_of(desk.store)
    assert later.era[::-1] > before.era[::-1] and not later.held


def test_a_running_gateway_goes_on_after_a_backup(desk: CoinDesk, tmp_path: Path) -> None:
    talker = desk.stall()
    era = coins_of(desk.store).era
    assert desk.type("backup", str(tmp_path / "copy.sqlite")).exit_code == 0
    counts: dict[str, int] = {}
    for _ in range(4):
        for verdict, count in talker.talk().items():
            counts[verdict] = counts.get(verdict, 0) + count
    assert counts["accepted"] == HELD
    assert desk.type("backup", str(tmp_path / "other.sqlite")).exit_code == 0
    desk.store.close()
    desk.open()
    desk.send([])
    assert coins_of(desk.store).era == era, "a backup is not a restore"


def test_a_backup_without_verified_coins_writes_no_mark(desk: CoinDesk, tmp_path: Path) -> None:
    with desk.store.begin() as transaction:
        assert transaction.mark == 0
    assert desk.type("backup", str(tmp_path / "copy.sqlite")).exit_code == 0
    assert desk.store.marks() == frozenset()


def test_an_unanswered_audit_stalls_a_device_too(desk: CoinDesk) -> None:
    desk.talker().talk()
    desk.now += 2 * BUCKET + 1
    assert (desk.device()["held"], desk.totals()) == (0, (0, 1))
    assert desk.device()["stalled"] is not None
    assert desk.ask("release", "1", "--reason", "it was reset")["dropped"] == 0
    assert desk.device()["stalled"] is None


def test_the_evidence_of_a_wrong_opening_is_explained(desk: CoinDesk) -> None:
    talker = desk.stall()
    talker.hear()
    number = talker.coins._challenges[1].numbers[0]
    wrong = talker.coins._seal(3, number, bytes(desk.profile(1, 1).opening_bytes))
    assert desk.send([wrong]) == {"coin": 1}
    cases = Cases(desk.store, lambda: desk.snapshot, residual_limit=1e-3)
    (piece,) = cases.against(1)
    found = cases.report(piece["id"])
    assert (found["verdict"], found["layer"], found["number"]) == ("coin", "coin", number)
    assert found["sentence"].startswith("It opened an outcome that it had not committed to.")
    assert found["picture"] is None, "an opening has no codeword"
    assert {each["field"]: each["value"] for each in found["bytes"]}["type"] == "opening"
    assert "".join(each["hex"] for each in found["bytes"]) == wrong.hex()
