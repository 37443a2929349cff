# SPDX-License-Identifier: MIT
"""Advice that could do harm: each test makes the condition, runs the printed command, and checks the result."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from field import Field, MakeField
from helpers import as_root

from peel_gateway.model.messages import Message
from peel_gateway.notifiers.alarm import MANY
from peel_gateway.storage.dead_letters import DeadLetters
from peel_tools.cli import main
from peel_tools.servers.gateway import GatewayProcess
from peel_tools.servers.postgres import PostgresServer

SENT = 40
DEVICES = ("00000001", "00000015")


@pytest.fixture(scope="module")
def lived(start_field: MakeField, tmp_path_factory: pytest.TempPathFactory) -> tuple[Field, GatewayProcess]:
    """A fleet and the database of a gateway that has run and stopped; `MANY` devices are exposed."""
    field = start_field(tmp_path_factory.mktemp("lived"))
    gateway = field.new_gateway().start()
    field.publish(field.reports(SENT))
    field.wait_accepted(gateway, SENT)
    field.publish(field.reports(MANY, devices=range(1, 1 + MANY), odds=(5, 1)))
    gateway.wait_for(lambda: gateway.summary()["totals"]["exposed"] == MANY)
    assert gateway.stop() == 0
    return field, gateway


class Desk:
    """A folder with its own copy of fleet, settings and database, and somebody who types commands there."""

    def __init__(self, field: Field, gateway: GatewayProcess, folder: Path) -> None:
        self.field = field
        self.gateway = gateway
        self.fleet = folder / "fleet"
        self.database = folder / "peel.sqlite"
        self.settings = folder / "gateway.toml"
        shutil.copytree(field.fleet.folder, self.fleet)
        shutil.copy(gateway.store_path, self.database)
        self.write_settings()

    def write_settings(self, *lines: str) -> None:
        text = "\n".join(["[mqtt]\nport = 1", "[http]\nport = 0", *lines])
        self.settings.write_text(text + "\n")
        self.settings.chmod(0o600)

    def type(self, line: str, answer: str = "") -> Result:
        """Type a `peel` command."""
        program, *words = shlex.split(line)
        assert program == "peel"
        return CliRunner().invoke(main, words, input=answer)

    def say(self, line: str, code: int) -> str:
        """Return what a command says that ends with this code."""
        done = self.type(line)
        assert done.exit_code == code, done.output
        return done.output

    def follow(self, advice: str, pattern: str = "`(peel [^`]+)`", answer: str = "", **names: object) -> Result:
        """Type the command that is printed in advice, with what its words in capitals stand for."""
        (line,) = re.findall(pattern, advice)
        done = self.type(re.sub(r"\b[A-Z]{4,}\b", lambda word: str(names[word[0]]), line), answer)
        assert done.exit_code == 0, done.output
        return done

    def run_other(self, advice: str, **names: str) -> None:
        """Run the PostgreSQL command that is printed in advice."""
        (line,) = re.findall(r"`(pg_[^`]+)`", advice)
        subprocess.run(shlex.split(re.sub(r"\b[A-Z]{4,}\b", lambda word: names[word[0]], line)), check=True)

    def change_mode(self, advice: str) -> None:
        """Run the `chmod` that is printed in advice."""
        (line,) = re.findall(r"chmod \S+ \S+?(?=[.,]?(?:\s|$))", advice)
        subprocess.run(shlex.split(line), check=True)

    def restore_old_folder(self) -> None:
        """Put back the devices.jsonl from before a revocation that the gateway has seen."""
        old = (self.fleet / "devices.jsonl").read_bytes()
        self.say(f"peel fleet revoke {shlex.quote(str(self.fleet))} 9", 0)
        self.field.new_gateway("other", fleet_folder=self.fleet, store_path=self.database).start().stop()
        (self.fleet / "devices.jsonl").write_bytes(old)

    def findings(self, about: str, options: str = "") -> list[dict[str, str]]:
        """Return what `peel doctor` does not find good about something."""
        items = json.loads(self.type(f"peel doctor --json {options}").stdout.splitlines()[-1])["items"]
        return [item for item in items if item["about"] == about and item["state"] != "good"]

    def agrees(self) -> None:
        self.say("peel gateway recount", 0)


@pytest.fixture
def desk(lived: tuple[Field, GatewayProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(tmp_path)
    return Desk(*lived, tmp_path)


def test_a_fleet_is_made_where_there_is_none(desk: Desk) -> None:
    desk.follow(desk.say("peel fleet list other", 3), NAME="other")
    desk.say("peel fleet list other", 0)


@pytest.mark.parametrize("lost", [["fleet.toml"], ["fleet.toml", "master.key"]])
def test_nobody_is_told_to_make_a_fleet_over_the_rest_of_one(desk: Desk, lost: list[str]) -> None:
    """A new `devices.jsonl` in place of the old one would lose the salts, and with them the keys of all devices."""
    before = (desk.fleet / "devices.jsonl").read_bytes()
    for name in lost:
        (desk.fleet / name).rename(name)
    said = desk.say("peel fleet list fleet", 3)
    assert "Restore fleet.toml" in said and "init" not in said
    assert "restore fleet.toml" in desk.say("peel fleet init fleet --name field", 3)
    assert (desk.fleet / "devices.jsonl").read_bytes() == before
    for name in lost:
        Path(name).rename(desk.fleet / name)
    desk.agrees()


def test_files_that_others_can_read(desk: Desk) -> None:
    (desk.fleet / "master.key").chmod(0o644)
    desk.change_mode(desk.say("peel gateway recount", 3))
    desk.write_settings('token = "correct horse battery"')
    desk.settings.chmod(0o644)
    desk.change_mode(desk.say("peel gateway recount", 2))
    desk.fleet.chmod(0o755)
    desk.database.chmod(0o644)
    for finding in desk.findings("modes"):
        desk.change_mode(finding["remedy"])
    assert desk.findings("modes") == []
    desk.agrees()


def test_files_of_another_user(desk: Desk) -> None:
    """Root would leave files that the gateway's user cannot read, and a key given to root would stop the gateway."""
    if os.geteuid() or not as_root("chown", "-R", "nobody", str(desk.fleet), str(desk.database)):
        pytest.skip("cannot give files away (needs root)")
    copy = desk.gateway.store_path
    for line, code in (
        ("peel gateway recount", 3),
        ("peel fleet revoke fleet 1", 3),
        ("peel fleet add fleet", 3),
        ("peel gateway upgrade", 2),
        (f"peel gateway restore {copy}", 2),
    ):
        said = desk.say(line, code)
        assert "Run it as that user: runuser -u nobody -- peel" in said and "chown" not in said
    files = [desk.database, *desk.fleet.rglob("*")]
    assert {path.owner() for path in files if path.name != ".lock"} == {"nobody"}


def test_devices_that_were_exposed_by_accident(desk: Desk) -> None:
    said = desk.say("peel gateway exposures", 0)
    done = desk.follow(said, r"\n +(peel gateway pardon .+)", answer="y\n")
    assert f"{MANY} pardoned" in done.output
    assert "accident" not in desk.say("peel gateway exposures", 0)
    assert json.loads(desk.type("peel gateway estimates --json").stdout)["items"][0]["n"] == SENT
    desk.agrees()


def test_the_pardon_of_an_accident_spares_all_others(desk: Desk) -> None:
    """A device that was exposed hours later and one that was revoked meanwhile are not part of the accident."""
    with closing(sqlite3.connect(desk.database)) as connection, connection:
        cause, last = connection.execute("SELECT cause, MAX(cause_time) FROM device WHERE cause != 0").fetchone()
        for device, when in ((0x13, last), (0x14, last + 7_200_000)):
            row = (cause, when, device)
            connection.execute("UPDATE device SET cause = ?, cause_time = ?, withdrawn = 1 WHERE device = ?", row)
    desk.say("peel fleet revoke fleet 13", 0)
    done = desk.follow(desk.say("peel gateway exposures", 0), r"\n +(peel gateway pardon .+)", answer="y\n")
    assert f"{MANY} pardoned" in done.output
    with closing(sqlite3.connect(desk.database)) as connection:
        left = connection.execute("SELECT device FROM device WHERE cause != 0 ORDER BY device").fetchall()
    assert left == [(0x13,), (0x14,)]


@pytest.fixture
def far_desk(lived: tuple[Field, GatewayProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk whose files are in another folder: every printed command must name them."""
    (tmp_path / "the site").mkdir()
    monkeypatch.chdir(tmp_path)
    return Desk(*lived, tmp_path / "the site")


def test_advice_is_typed_in_another_folder(far_desk: Desk) -> None:
    named = f"--config {shlex.quote(str(far_desk.settings))}"
    said = far_desk.say(f"peel gateway exposures {named}", 0)
    done = far_desk.follow(said, r"\n +(peel gateway pardon .+)", answer="y\n")
    assert f"{MANY} pardoned" in done.output
    far_desk.follow(done.stderr, DEVICE=1)
    letters = DeadLetters(far_desk.database.with_name("peel.sqlite.dead-letters"))
    letters.put(Message("peel/other/00000001", b"", time.time()))
    (finding,) = far_desk.findings("dead letters", named)
    assert "1 dead letters taken" in far_desk.follow(finding["remedy"], "run: (peel .+)").output


def test_a_fleet_folder_from_an_old_copy_is_used_for_nothing(far_desk: Desk) -> None:
    """Its keys and revocations are not those that the gateway had: no report may be judged by them."""
    named = f"--config {shlex.quote(str(far_desk.settings))}"
    far_desk.restore_old_folder()
    for line in ("recount", "replay", "migrate --to new.sqlite", "pardon 1 --reason text", "release 1 --reason text"):
        said = far_desk.say(f"peel gateway {line} {named}", 3)
    far_desk.follow(said)
    far_desk.say(f"peel gateway recount {named}", 0)


def test_the_log_of_a_gateway_in_another_folder(far_desk: Desk) -> None:
    with closing(sqlite3.connect(far_desk.database)) as connection, connection:
        ahead = round((time.time() + 1e8) * 1000)
        connection.execute("UPDATE meta SET value = ? WHERE key IN ('wall', 'seen')", (ahead,))
        connection.execute("UPDATE meta SET value = 1 WHERE key = 'boot'")
    run = [sys.executable, "-m", "peel_tools", "gateway", "run"]
    with subprocess.Popen(run, cwd=far_desk.settings.parent, stderr=subprocess.PIPE, text=True) as gateway:
        assert gateway.stderr is not None
        advice = next(line for line in gateway.stderr if "--believe" in line)
        gateway.terminate()
        gateway.stderr.read()
    far_desk.follow(advice)
    rows = json.loads(far_desk.type(f"peel gateway clock --json --config {shlex.quote(str(far_desk.settings))}").stdout)
    assert rows["partitions"][0]["behind_until"] is None


def test_one_exposed_device(desk: Desk) -> None:
    log = desk.gateway.log_path.read_text()
    advice = re.findall(r"peel gateway exposures --device 00000001.*?--reason TEXT`", log)[0]
    exposures, revoke, pardon = (f"`{line}`" for line in re.findall("(peel [^`]+)`", "`" + advice))
    desk.follow(exposures)
    desk.follow(pardon, TEXT="repaired")
    folder = str(desk.field.fleet.folder)
    assert folder in revoke, "the folder of the gateway that wrote it"
    desk.follow(revoke.replace(folder, "fleet"))
    desk.agrees()


def test_a_damaged_database(desk: Desk) -> None:
    desk.say("peel gateway backup copy.sqlite", 0)
    content = bytearray(desk.database.read_bytes())
    content[4096 * 2 : 4096 * 6] = b"\xaa" * 4096 * 4
    desk.database.write_bytes(content)
    said = desk.say("peel gateway devices", 4)
    (finding,) = desk.findings("database")
    for advice in (said, finding["remedy"]):
        desk.follow(advice, COPY="copy.sqlite")
        assert [path.name for path in desk.database.parent.glob("copy.sqlite*")] == ["copy.sqlite"]
    assert desk.findings("database") == []
    assert any(path.read_bytes() == content for path in desk.database.parent.glob("peel.sqlite.before-*"))
    desk.agrees()


def test_a_database_with_other_buckets(desk: Desk) -> None:
    desk.write_settings("[store]\nbucket_seconds = 60")
    (seconds,) = re.findall(r"Set it to (\d+)", desk.say("peel gateway devices", 4))
    assert "migrate" not in desk.findings("database")[0]["remedy"], "it keeps the buckets"
    desk.write_settings(f"[store]\nbucket_seconds = {seconds}")
    desk.agrees()


def test_a_fleet_folder_from_an_old_copy(desk: Desk) -> None:
    desk.restore_old_folder()
    advice = desk.say("peel fleet note fleet 1 text", 3)
    assert f"{desk.fleet}: accepted. Repeat the revocations" in desk.follow(advice).stdout
    desk.say("peel fleet revoke fleet 9", 0)
    desk.agrees()


def test_devices_that_an_old_fleet_folder_does_not_know(desk: Desk) -> None:
    """After the copy one device got a new bundle and one was enrolled; both have reported since."""
    with closing(sqlite3.connect(desk.database)) as connection, connection:
        connection.execute("UPDATE progress SET last_number = 900000000 WHERE device = 1")
        for table in ("device", "progress"):
            row = list(connection.execute(f"SELECT * FROM {table} WHERE device = 20").fetchone())
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", [0x15, *row[1:]])
    desk.restore_old_folder()
    said = desk.follow(desk.say("peel fleet note fleet 1 text", 3)).output
    for pattern in ("`(peel fleet bundle [^`]+)`", "`(peel fleet add [^`]+)`"):
        desk.follow(said, pattern)
    first = {
        name: json.loads((desk.fleet / "bundles" / f"{name}.json").read_text())["first_number"] for name in DEVICES
    }
    assert first["00000001"] > 900_000_000
    assert first["00000015"] > 1, "above what the gateway has stored of it"
    assert "accepted" not in desk.say("peel fleet note fleet 15 text", 0)


def test_a_clock_that_was_ahead(desk: Desk) -> None:
    with closing(sqlite3.connect(desk.database)) as connection, connection:
        ahead = round((time.time() + 1e8) * 1000)
        connection.execute("UPDATE meta SET value = ? WHERE key IN ('wall', 'seen')", (ahead,))
        connection.execute("UPDATE meta SET value = 1 WHERE key = 'boot'")
    (finding,) = desk.findings("clock")
    desk.follow(finding["remedy"])
    assert desk.findings("clock") == []
    assert json.loads(desk.type("peel gateway clock --json").stdout)["partitions"][0]["behind_until"] is None


def test_devices_without_a_bundle_and_bundles_that_lie_about(desk: Desk) -> None:
    desk.say("peel fleet add fleet --no-bundles", 0)
    desk.say("peel fleet bundle fleet 1", 0)
    before = (desk.fleet / "devices.jsonl").read_text().splitlines()
    without, lying = desk.findings("bundles")
    desk.follow(without["remedy"])
    assert "Delete each once it is on its device" in lying["remedy"]
    for path in (desk.fleet / "bundles").glob("*.json"):
        path.unlink()
    assert desk.findings("bundles") == []
    after = (desk.fleet / "devices.jsonl").read_text().splitlines()
    changed = [line for line in after if line not in before and '"00000' in line]
    assert all("00000015" in line for line in changed), "the keys of all others are as they were"


def test_dead_letters(desk: Desk) -> None:
    topic, payload = desk.field.reports(1, devices=[20])[0]
    letters = DeadLetters(desk.database.with_name("peel.sqlite.dead-letters"))
    letters.put(Message(topic, payload, time.time()))
    (finding,) = desk.findings("dead letters")
    desk.follow(finding["remedy"], "run: (peel .+)")
    assert desk.findings("dead letters") == []
    desk.agrees()


def test_a_postgresql_database(desk: Desk, postgres_server: PostgresServer) -> None:
    """Moved there, looked at with other settings, copied, lost, restored and upgraded, by what is printed."""
    place = ["[store]", 'schema = "advice"', "partitions = 4"]
    desk.write_settings(*place)
    desk.say(f"peel gateway migrate --to '{postgres_server.url}'", 0)
    url = f'url = "{postgres_server.url.replace("postgres@", "postgres:not-to-be-shown@")}"'
    desk.write_settings(*place[:2], url, "partitions = 8")
    (partitions,) = re.findall(
        r"store.partitions = 4, the setting is 8. Set it to (\d+)", desk.say("peel gateway devices", 4)
    )
    desk.write_settings(*place[:2], url, f"partitions = {partitions}")
    desk.agrees()
    said = desk.say("peel gateway backup copy", 2)
    desk.run_other(said, COPY="copy")
    with psycopg.connect(postgres_server.url) as connection:
        connection.execute("TRUNCATE advice.log, advice.device")
    said += desk.say("peel gateway restore copy", 2)
    desk.run_other(said.splitlines()[-1], COPY="copy")
    desk.agrees()
    upgrade = desk.say("peel gateway upgrade", 2)
    desk.run_other(upgrade, COPY="before-upgrade")
    assert "has version" in desk.follow(upgrade).output
    assert Path("before-upgrade").stat().st_size > 1000
    assert "not-to-be-shown" not in said + upgrade


WRONG = {
    '[webhook]\nurl = "http://example.org/x"': ("Use https", ("http:", "https:")),
    '[mqtt]\nca = "gateway.toml"': (r"Set (mqtt\.tls = true)", ("[mqtt]", "[mqtt]\ntls = true")),
    '[mqtt]\nclient_id = "a b"': ("give a name of up to 64 letters", ("[mqtt]", '[mqtt]\nname = "a-b"')),
    "[publish]\nseconds = 0\nhomeassistant = true": ("Set publish.seconds, such as 60", ("= 0", "= 60")),
    '[http]\nproxy = "10.0.0.1/8"': ("such as 10.0.0.0/8", ("10.0.0.1/8", "10.0.0.0/8")),
    '[store]\nurl = "peel.sqlite"': ("For an SQLite file set store.path", ("url", "path")),
    "[store]\npartitions = 3": ("must be a power of two", ("3", "4")),
    '[mqtt]\nhots = "x"': ("did you mean mqtt.host", ("hots", "host")),
    '[http]\ntoken = "x"\ntoken_file = "token"': ("Remove one of them", ('token = "x"\n', "")),
}
"""Settings files that are wrong, with the advice and the change that follows it."""


@pytest.mark.parametrize("text", WRONG)
def test_settings_that_are_wrong(text: str, tmp_path: Path) -> None:
    said, change = WRONG[text]
    file, token = tmp_path / "gateway.toml", tmp_path / "token"
    token.write_text("correct horse battery")
    token.chmod(0o600)
    check = ["gateway", "settings", "--config", str(file)]
    file.write_text(text)
    file.chmod(0o600)
    refused = CliRunner().invoke(main, check)
    assert refused.exit_code == 2
    assert re.search(said, refused.stderr), refused.stderr
    file.write_text(text.replace(*change))
    followed = CliRunner().invoke(main, check)
    assert followed.exit_code == 0, followed.stderr


def test_settings_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(main, ["gateway", "devices", "--config", "gateway.toml"])
    (line,) = re.findall(r"`(peel [^`]+)`", refused.stderr)
    Path("gateway.toml").write_text(CliRunner().invoke(main, shlex.split(line)[1:]).stdout)
    assert CliRunner().invoke(main, ["gateway", "settings", "--config", "gateway.toml"]).exit_code == 0
