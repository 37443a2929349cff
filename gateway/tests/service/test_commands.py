# SPDX-License-Identifier: MIT
"""`peel gateway` and `peel fleet` as an operator types them."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from field import MakeField
from helpers import without_device

from peel_gateway.model.messages import Message
from peel_gateway.settings import settings_table
from peel_gateway.storage.dead_letters import DeadLetters
from peel_tools.cli import fleet as fleet_group
from peel_tools.servers.gateway import GatewayProcess


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, start_field: MakeField) -> GatewayProcess:
    """A stopped gateway with 200 good reports, 3 of a device that was forgotten, 1 tossed with another budget."""
    field = start_field(tmp_path_factory.mktemp("commands"))
    devices = field.fleet.folder / "devices.jsonl"
    known = devices.read_text()
    devices.write_text(without_device(known, "00000013"))
    gateway = field.new_gateway().start()
    field.publish(field.reports(200, devices=range(1, 19)))
    field.publish(field.reports(3, devices=[0x13]))
    field.publish(field.reports(1, devices=[0x14], odds=(9, 3)))
    gateway.wait_for(lambda: gateway.summary()["totals"]["generation"] and gateway.summary()["totals"]["exposed"] == 4)
    assert gateway.stop() == 0
    devices.write_text(known)
    return gateway


def answer(gateway: GatewayProcess, *words: str) -> Any:
    done = gateway.command(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_change(gateway: GatewayProcess) -> None:
    (table,) = answer(gateway, "change", "--since", "2024-01-01", "--before-since", "0")["items"]
    assert (table["n_before"], table["n_after"]) == (0, 200)
    (table,) = answer(gateway, "change", "--window", "7d", "--name", "soil")["items"]
    assert [row["name"] for row in table["changes"]] == ["soil"]
    title, *sentences = gateway.command("change", "--window", "7d").stdout.splitlines()
    assert title.startswith("climate, 20") and "compared with" in title
    told = ["temperature", "temperature over devices", "soil", "soil over devices"]
    assert [line.split(":")[0].strip() for line in sentences] == told
    assert len(gateway.command("change", "--window", "7d", "--no-devices").stdout.splitlines()) == 3


def test_estimates(gateway: GatewayProcess) -> None:
    (row,) = answer(gateway, "estimates")["items"]
    assert row["n"] == 200
    table = gateway.command("estimates").stdout.splitlines()
    assert table[0].split()[:5] == ["start", "profile", "name", "over", "value"]
    assert [line.split()[2:4] for line in table[1:]] == [
        [name, over] for name in ("temperature", "soil") for over in ("reports", "devices")
    ]
    assert [line.split()[3] for line in gateway.command("estimates", "--no-devices").stdout.splitlines()[1:]] == [
        "reports"
    ] * 2
    assert answer(gateway, "estimates", "--since", "2999-01-01")["items"][0]["n"] == 0


def test_a_share_cap_holds_for_the_commands_too(gateway: GatewayProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    (free,) = answer(gateway, "estimates")["items"]
    environment = gateway.environment() | {"PEEL_GATEWAY_ESTIMATE_SHARE_CAP": "0.055"}
    monkeypatch.setattr(gateway, "environment", lambda: environment)
    (held,) = answer(gateway, "estimates")["items"]
    assert (free["share_cap"], held["share_cap"]) == (1.0, 0.055)
    for one, other in zip(free["estimates"], held["estimates"], strict=True):
        limit = max(0.055, 1 / other["devices"])
        assert other["influence_share"] == pytest.approx(limit)
        assert one["influence_share"] > limit
        assert other["n_effective"] < one["n_effective"] == one["n"] == other["n"]
        assert other["over_devices"] == one["over_devices"]
    done = gateway.command("estimates", "--no-devices")
    assert done.returncode == 2
    assert "cannot be combined with an estimate.share_cap below 1" in done.stderr


def test_exposures_devices_and_quarantine(gateway: GatewayProcess) -> None:
    (exposed,) = answer(gateway, "exposures")["items"]
    assert (exposed["verdict"], exposed["device"]) == ("rule", "00000014")
    assert "rule" in gateway.command("exposures").stdout
    assert len(answer(gateway, "quarantine", "--verdict", "device", "--device", "13")["items"]) == 3
    page = gateway.command("quarantine", "--limit", "2")
    assert "more: --before" in page.stderr
    assert [row["device"] for row in answer(gateway, "devices", "--state", "exposed")["items"]] == ["00000014"]
    assert len(gateway.command("devices").stdout.splitlines()) == 21


def test_recount_agrees_and_says_when_it_does_not(gateway: GatewayProcess, tmp_path: Path) -> None:
    assert answer(gateway, "recount")["agrees"] is True
    saved = tmp_path / "saved"
    shutil.copy(gateway.store_path, saved)
    tampered = sqlite3.connect(gateway.store_path)
    tampered.execute("UPDATE tally SET plus = plus + 1")
    tampered.commit()
    tampered.close()
    done = gateway.command("recount")
    assert done.returncode == 1
    assert "differences" in done.stdout
    shutil.copy(saved, gateway.store_path)


def test_replay_takes_each_piece_once(gateway: GatewayProcess, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    shutil.copy(gateway.store_path, saved)
    first = answer(gateway, "replay", "--verdict", "device")
    assert (first["taken"], first["accepted"]) == (3, 3)
    again = answer(gateway, "replay", "--verdict", "device")
    assert (again["taken"], again["accepted"]) == (0, 0)
    assert answer(gateway, "estimates")["items"][0]["n"] == 203
    assert answer(gateway, "recount")["agrees"] is True
    shutil.copy(saved, gateway.store_path)


def test_replay_of_dead_letters_while_the_gateway_runs(make_field: MakeField) -> None:
    """They show in health, summary, metrics and doctor, and leave all of them once they are stored."""
    field = make_field()
    gateway = field.new_gateway().start()
    letters = DeadLetters(gateway.store_path.with_name("peel.sqlite.dead-letters"))
    for topic, frame in field.reports(3):
        letters.put(Message(topic, frame, time.time()))
    health = gateway.get("/healthz")
    assert (health["status"], health["causes"], health["dead_letters"]) == ("ok", [], 3)
    assert gateway.summary()["store"]["dead_letters"] == 3
    assert "peel_dead_letters 3.0" in gateway.fetch("/metrics")
    assert "peel gateway replay --dead-letters" in gateway.peel("doctor").stdout
    other = letters.folder / "other.json"
    other.write_text("{}")
    done = gateway.command("replay", "--dead-letters", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["taken"], told["accepted"], list(told["kept"])) == (3, 3, [str(other)])
    other.unlink()
    assert answer(gateway, "replay", "--dead-letters")["taken"] == 0
    assert gateway.get("/healthz")["dead_letters"] == 0
    field.publish(field.reports(2))
    field.wait_accepted(gateway, 5)


def test_pardon_says_what_it_did_and_the_trail_keeps_it(gateway: GatewayProcess, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    shutil.copy(gateway.store_path, saved)
    try:
        done = answer(gateway, "pardon", "14", "--reason", "wrong bundle", "--who", "ada", "--restore")
        (item,) = done["items"]
        assert (item["device"], item["cause"], item["restored"], item["who"]) == ("00000014", "rule", True, "ada")
        assert (done["restored"], done["forfeited"]) == (item["reports"], 0)
        (kept,) = answer(gateway, "audit", "--device", "14")["items"]
        assert kept | {"id": None} == item | {"id": None}
        assert "wrong bundle" in gateway.command("audit").stdout
        assert answer(gateway, "devices", "--state", "exposed")["items"] == []
        assert answer(gateway, "recount")["agrees"] is True
        again = gateway.command("pardon", "14", "--reason", "twice")
        assert (again.returncode, "is not exposed" in again.stderr) == (2, True)
    finally:
        shutil.copy(saved, gateway.store_path)


def test_pardon_of_all_that_one_cause_exposed_is_asked_for(gateway: GatewayProcess, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    shutil.copy(gateway.store_path, saved)
    words = ("pardon", "--cause", "rule", "--since", "2020-01-01", "--reason", "cloned folder")
    try:
        asked = gateway.command(*words)
        assert asked.returncode == 1, "nobody answered"
        assert "pardon 1 devices?" in asked.stderr
        assert len(answer(gateway, "devices", "--state", "exposed")["items"]) == 1
        done = gateway.command(*words, "--yes")
        assert done.returncode == 0
        assert "1 pardoned; 0 reports count again" in done.stdout
        assert "peel fleet bundle" in done.stderr, "what is still to do"
    finally:
        shutil.copy(saved, gateway.store_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pardon", "99", "--reason", "x"), "00000099: is not registered"),
        (("pardon", "13", "--reason", "x"), "00000013: has never sent a report"),
        (("pardon", "1", "--reason", "x"), "00000001: is not exposed"),
        (("pardon", "14", "--reason", " "), "reason: say why"),
        (("pardon", "--reason", "x"), "name devices, or give --cause"),
        (("pardon", "14", "--cause", "rule", "--reason", "x"), "name devices, or give --cause"),
        (("pardon", "--cause", "flood", "--reason", "x"), "no device is exposed by flood"),
        (("pardon", "--cause", "seal", "--reason", "x"), "seal is listed under quarantine"),
        (("pardon", "--cause", "rule", "--reason", "x", "--json"), "Add --yes"),
        (("audit", "--limit", "0"), "limit: must be"),
        (("estimates", "--profile", "weather"), "profile: 'weather' is not in this fleet"),
        (("estimates", "--since", "soon"), "since: 'soon' is neither"),
        (("change",), "window: must be given, such as 24h"),
        (("change", "--window", "7 days"), "window: must be a number from 1 to 9999 and a unit"),
        (("exposures", "--verdict", "seal"), "seal is listed under quarantine"),
        (("replay", "--verdict", "rule"), "rule is listed under exposures"),
        (("replay", "--dead-letters", "--verdict", "seal"), "--dead-letters cannot be combined with --verdict"),
        (("devices", "--limit", "5000"), "limit: must be a whole number from 1 to 1000"),
        (("estimates", "--config", "none.toml"), "none.toml: no such file"),
    ],
)
def test_wrong_questions_have_exit_code_2(gateway: GatewayProcess, words: tuple[str, ...], said: str) -> None:
    done = gateway.command(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_asking_makes_no_database(gateway: GatewayProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = tmp_path / "elsewhere.sqlite"
    gateway.store_path.rename(saved)
    try:
        done = gateway.command("estimates")
        assert done.returncode == 2
        assert "Has the gateway run yet?" in done.stderr
        assert not gateway.store_path.exists()
    finally:
        saved.rename(gateway.store_path)


def test_a_refused_key_has_exit_code_3(gateway: GatewayProcess) -> None:
    key = Path(gateway.environment()["PEEL_GATEWAY_FLEET_FOLDER"]) / "master.key"
    key.chmod(0o644)
    try:
        assert gateway.command("devices").returncode == 3
    finally:
        key.chmod(0o600)


def test_settings_and_help(gateway: GatewayProcess) -> None:
    listed = gateway.command("settings").stdout
    assert all(row.name in listed for row in settings_table())
    assert gateway.command("settings", "--sample").stdout.startswith("# Peel gateway")
    help_text = gateway.command("run", "--help").stdout
    assert all(row.name in help_text for row in settings_table())


def fleet(*words: str) -> Result:
    return CliRunner().invoke(fleet_group, list(words))


def test_a_fleet_from_nothing(tmp_path: Path) -> None:
    profile = tmp_path / "p.toml"
    profile.write_text(
        'name = "door"\nepsilon = 1\nverify = false\nseed = 1\nquota = 1\nperiod = 1\nlifetime = 500\n'
        '[[attribute]]\nkind = "category"\nname = "state"\ncategories = ["open", "shut"]\n'
    )
    folder = str(tmp_path / "fleet")
    assert fleet("init", folder, "--name", "home", "--profile", str(profile)).exit_code == 0
    result = fleet("add", folder, "--count", "2", "--json")
    assert "no template" in result.stderr
    added = json.loads(result.stdout)["items"]
    assert [row["device"] for row in added] == ["00000001", "00000002"]
    bundle = json.loads(Path(added[0]["bundle"]).read_text())
    assert (bundle["device"], bundle["fleet"]) == ("00000001", "home")
    assert fleet("revoke", folder, "1").exit_code == 0
    assert fleet("note", folder, "2", "by the door").exit_code == 0
    assert fleet("unrevoke", folder, "2", "--reason", "found again").exit_code == 3
    assert fleet("unrevoke", folder, "1").exit_code == 2
    assert fleet("unrevoke", folder, "1", "--reason", "\n").exit_code == 2
    back = fleet("unrevoke", folder, "1", "--reason", "found again", "--who", "ada", "--json")
    assert json.loads(back.stdout)["items"][0]["state"] == "registered"
    assert fleet("revoke", folder, "1", "--reason", "lost again").exit_code == 0
    trail = json.loads(fleet("audit", folder, "--json").stdout)["items"]
    assert [(row["action"], row["device"], row["reason"]) for row in trail] == [
        ("revoke", "00000001", "lost again"),
        ("unrevoke", "00000001", "found again"),
        ("revoke", "00000001", ""),
    ]
    assert trail[1]["who"] == "ada"
    assert "found again" in fleet("audit", folder).stdout
    listed = json.loads(fleet("list", folder, "--json").output)["items"]
    assert [(row["state"], row["note"]) for row in listed] == [("revoked", ""), ("registered", "by the door")]
    assert all(row["left"] < 500 for row in listed), "a bundle was written, so some may have been used"
    again = json.loads(fleet("bundle", folder, "2", "--first-number", "77", "--json").stdout)["items"]
    assert json.loads(Path(again[0]["bundle"]).read_text())["first_number"] == 77


def test_fleet_errors_have_exit_code_3(tmp_path: Path) -> None:
    for words in (["list", str(tmp_path)], ["add", str(tmp_path)], ["revoke", str(tmp_path), "1"]):
        result = fleet(*words)
        assert result.exit_code == 3
        assert "not a fleet folder" in result.output
    assert fleet("init", str(tmp_path / "f"), "--name", "a").exit_code == 0
    result = fleet("add", str(tmp_path / "f"))
    assert result.exit_code == 3
    assert "no profile yet" in result.output
