# SPDX-License-Identifier: MIT
"""`peel simulate` against a real broker, as it is typed; and `peel demo`, bounded and interrupted."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from helpers import wait_until

from peel_core import open_many
from peel_core.topics import device_topic, fleet_topic
from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_hil.listener import Listener
from peel_tools.cli import main
from peel_tools.servers.broker import AnyBroker, Broker
from peel_tools.simulation.publisher import BrokerAddress, PublisherError
from peel_tools.simulation.session import SimulatedSite, make_fleet

PEEL = [sys.executable, "-m", "peel_tools"]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return make_fleet(tmp_path / "fleet", greenhouse=20)


@pytest.fixture
def listener(broker: Broker) -> Iterator[Listener]:
    with Listener((broker.host, broker.port), fleet_topic("+", "+", "+", "report")) as listening:
        yield listening


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def _simulate(fleet: Fleet, broker: AnyBroker, *arguments: str) -> dict[str, Any]:
    words = ["simulate", "--fleet", str(fleet.folder), "--broker", f"127.0.0.1:{broker.port}", "--json", *arguments]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    table: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return table


def test_what_the_broker_delivers_is_what_the_truth_says(fleet: Fleet, broker: Broker, listener: Listener) -> None:
    said = _simulate(fleet, broker, "--reports", "400", "--rate", "4000", "--burst", "2", "--seed", "4")
    assert said["published"] == said["acknowledged"] == said["by_kind"]["honest"] >= 400
    received = listener.wait(said["published"] // 2)
    opened = open_many(take_snapshot(fleet).keyring, [payload for _, payload in received])
    assert (opened.code == 0).all()
    truth = sqlite3.connect(said["truth"])
    rows = set(truth.execute("SELECT device, number FROM report").fetchall())
    assert set(zip(opened.device.tolist(), opened.number.tolist(), strict=True)) == rows
    assert {topic for topic, _ in received} == {device_topic("demo", device, "report") for device, _ in rows}


def test_a_run_is_continued_with_new_numbers(fleet: Fleet, broker: Broker) -> None:
    first = _simulate(fleet, broker, "--reports", "200", "--rate", "4000")
    second = _simulate(fleet, broker, "--seconds", "4", "--rate", "100")
    assert second["acknowledged"] == first["acknowledged"] + second["published"]
    assert second["published"] > 0
    truth = sqlite3.connect(first["truth"])
    total, distinct = truth.execute("SELECT COUNT(*), COUNT(DISTINCT digest) FROM report").fetchone()
    assert total == distinct == second["acknowledged"]


def test_a_killed_simulation_knows_what_was_acknowledged(fleet: Fleet, broker: Broker, listener: Listener) -> None:
    command = [
        *PEEL,
        "simulate",
        "--fleet",
        str(fleet.folder),
        "--broker",
        f"127.0.0.1:{broker.port}",
        "--rate",
        "2000",
        "--confirm",
        "broker",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    listener.wait(500)
    with closing(sqlite3.connect(fleet.folder / "simulation.sqlite")) as truth:
        wait_until(lambda: _count(truth, "acknowledged") > 0, "an acknowledgement in the truth file")
        process.kill()
        process.wait()
        waiting = int(truth.execute("SELECT COUNT(*) FROM message WHERE payload IS NOT NULL").fetchone()[0])
        # The process may have died between its two entries: a message that is acknowledged and still kept.
        known = _count(truth, "acknowledged OR payload IS NOT NULL")
    resumed = _simulate(fleet, broker, "--seconds", "0.2", "--rate", "1", "--confirm", "broker")
    assert resumed["resent_messages"] == waiting
    assert resumed["acknowledged"] == known + resumed["published"]
    wait_until(
        lambda: len({payload for _, payload in listener.messages}) == resumed["acknowledged"],
        "everything that the truth calls acknowledged",
    )


def _count(truth: sqlite3.Connection, condition: str) -> int:
    query = f"SELECT COUNT(*) FROM report JOIN message ON message.id = report.message WHERE {condition}"
    return int(truth.execute(query).fetchone()[0])


def test_an_attack_that_no_device_plays_is_named(fleet: Fleet, broker: Broker) -> None:
    words = [
        "simulate",
        "--fleet",
        str(fleet.folder),
        "--broker",
        f"127.0.0.1:{broker.port}",
        "--reports",
        "5",
        "--json",
    ]
    for share in ("0.001", "0.2"):  # of 20 devices that is nobody; and then all have had their roles
        result = CliRunner().invoke(main, [*words, "--attack", f"stuck={share}", "--confirm", "broker"])
        assert f"stuck={share}: no device plays it" in result.stderr
        assert json.loads(result.stdout.splitlines()[-1])["unplayed_attacks"] == ["stuck"]
    assert f"`peel fleet add {fleet.folder} --count N`" in result.stderr


def test_the_advice_on_an_attack_that_no_device_plays_harms_nobody(tmp_path: Path) -> None:
    """Do what it says, with a gateway: the new devices play, and only they are exposed."""
    with SimulatedSite(tmp_path, numeric=20) as rig:
        words = ["--reports", "400", "--rate", "400"]
        assert _simulate(rig.fleet, rig.broker, *words)["unplayed_attacks"] == []
        assert _simulate(rig.fleet, rig.broker, *words, "--attack", "budget=0.5")["unplayed_attacks"] == ["budget"]
        added = CliRunner().invoke(
            main, ["fleet", "add", str(rig.fleet.folder), "--profile", "greenhouse", "--count", "4"]
        )
        assert added.exit_code == 0, added.output
        rig.gateway.wait_for(lambda: len(rig.gateway.get("/api/devices?limit=100")["items"]) == 24)
        assert _simulate(rig.fleet, rig.broker, *words, "--attack", "budget=0.5")["unplayed_attacks"] == []
        found = rig.settled(60)
        assert found.exact, found.faults()
        exposed = [row["device"] for row in rig.gateway.get("/api/devices?limit=100")["items"] if row["exposed"]]
        assert len(exposed) == 2 and set(exposed) < {"00000015", "00000016", "00000017", "00000018"}


def test_reports_with_verified_coins_count_after_their_time_bucket(tmp_path: Path) -> None:
    """A run that ends before its coins are opened leaves the openings to the next one."""
    built_in = make_fleet(tmp_path / "built_in", greenhouse=1).folder / "profiles" / "greenhouse.toml"
    profile = tmp_path / "greenhouse.toml"
    profile.write_text(built_in.read_text().replace("verify = false\n", "offline = 3\nbucket = 2\n"))
    settings = {"store_bucket_seconds": 2, "mqtt_receipt_seconds": 0.3}
    with SimulatedSite(tmp_path, numeric=10, profiles=[profile], settings=settings) as rig:
        for _ in range(2):
            said = _simulate(rig.fleet, rig.broker, "--reports", "300", "--rate", "300", "--burst", "2")
            assert said["published"] >= 300
            assert (said["unopened_reports"], said["unconfirmed_messages"]) == (0, 0)
        killed = subprocess.Popen([*_words(rig.fleet, rig.broker), "--rate", "100"], stdout=subprocess.DEVNULL)
        with closing(sqlite3.connect(rig.truth_path)) as truth:
            wait_until(lambda: _count(truth, "acknowledged") > 650, "acknowledgements in the truth file")
        killed.kill()
        killed.wait()
        said = _simulate(rig.fleet, rig.broker, "--reports", "100", "--rate", "300", "--burst", "2")
        assert said["unopened_reports"] == 0
        found = rig.settled(30)
        assert found.exact, found.faults()
        assert found.accepted == found.honest >= 700
        estimates = rig.gateway.get("/api/estimates?profile=greenhouse&devices=no")["items"][0]["estimates"]
        assert sum(row["n"] for row in estimates) == found.accepted
        refused = CliRunner().invoke(main, [*_words(rig.fleet, rig.broker)[len(PEEL) :], "--confirm", "broker"])
        assert refused.exit_code != 0
        assert "profile 'greenhouse' has verified coins, which need the gateway's receipts" in refused.output
        assert rig.gateway.stop() == 0
        recount = rig.gateway.command("recount", "--json")
        assert recount.returncode == 0, recount.stdout + recount.stderr


def _words(fleet: Fleet, broker: AnyBroker) -> list[str]:
    return [*PEEL, "simulate", "--fleet", str(fleet.folder), "--broker", f"127.0.0.1:{broker.port}"]


def test_a_fleet_of_boards_is_refused(tmp_path: Path) -> None:
    profile = next(iter(make_fleet(tmp_path / "simulated", greenhouse=1).profiles()))
    folder = tmp_path / "fleet"
    source = tmp_path / "simulated" / "profiles" / f"{profile}.toml"
    Fleet.create(folder, "boards", [source]).enrol(profile)
    done = CliRunner().invoke(main, ["simulate", "--fleet", str(folder), "--reports", "1"])
    assert done.exit_code == 3
    assert f"{folder}: is a fleet of boards" in done.stderr
    assert "peel fleet init FOLDER --name NAME --simulated" in done.stderr
    assert not (folder / "simulation.sqlite").exists()


def test_one_simulation_at_a_time(fleet: Fleet, broker: Broker) -> None:
    with (fleet.folder / ".simulating").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        done = CliRunner().invoke(main, ["simulate", "--fleet", str(fleet.folder), "--reports", "1"])
    assert (done.exit_code, "another `peel simulate` runs" in done.stderr) == (3, True)
    assert _simulate(fleet, broker, "--reports", "1", "--confirm", "broker")["published"] >= 1


def test_numbers_that_are_lost_are_not_used_again(fleet: Fleet) -> None:
    (fleet.folder / "simulation.sqlite").unlink()
    done = CliRunner().invoke(main, ["simulate", "--fleet", str(fleet.folder), "--reports", "1"])
    assert (done.exit_code, "simulation.sqlite: is missing" in done.stderr) == (3, True)


@pytest.mark.parametrize(
    "words",
    [
        ["fleet", "bundle", "FOLDER", "1"],
        ["fleet", "provision", "1", "--fleet", "FOLDER", "--board", "pico_w", "--dry-run"],
        ["device", "run", "FOLDER/bundles/00000001.json"],
    ],
)
def test_nothing_of_a_simulated_fleet_gets_onto_a_board(fleet: Fleet, words: list[str]) -> None:
    done = CliRunner().invoke(main, [word.replace("FOLDER", str(fleet.folder)) for word in words])
    assert done.exit_code in (3, 7)
    assert "is a simulated fleet" in done.stderr and "`peel fleet init FOLDER --name NAME`" in done.stderr
    assert list((fleet.folder / "bundles").iterdir()) == []


def test_devices_of_a_simulated_fleet_get_keys_and_no_bundle(fleet: Fleet) -> None:
    done = CliRunner().invoke(main, ["fleet", "add", str(fleet.folder), "--profile", "greenhouse", "--json"])
    assert done.exit_code == 0, done.output
    (added,) = json.loads(done.stdout)["items"]
    assert "bundle" not in added and list((fleet.folder / "bundles").iterdir()) == []
    assert len(fleet.device(int(added["device"], 16)).bundles) == 1, "the gateway has keys for it"


def test_readings_from_a_file(fleet: Fleet, broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "readings.csv"
    names = [attribute.name for attribute in fleet.profiles()["greenhouse"].attributes]
    middle = [str((a.low + a.high) / 2) for a in fleet.profiles()["greenhouse"].attributes]
    path.write_text(",".join(names) + "\n" + ",".join(middle) + "\n")
    said = _simulate(fleet, broker, "--reports", "50", "--rate", "4000", "--csv", str(path))
    assert list(said["means"]["greenhouse"].values()) == pytest.approx([float(value) for value in middle])


def test_the_quota_holds_the_fleet_back_and_says_so(fleet: Fleet, broker: Broker) -> None:
    _simulate(fleet, broker, "--reports", "20", "--rate", "4000")
    said = _simulate(fleet, broker, "--seconds", "1", "--rate", "4000")  # nothing is saved up any more
    assert said["held_back_by_quota"]
    assert said["published"] < 20 * (20 + 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--broker", "127.0.0.1:1"], "broker 127.0.0.1:1: "),
        (["--broker", "http://x"], "write host:port"),
        (["--broker", "mqtt://user:secret@x"], "the address must not contain a user or password"),
        (["--attack", "stuck=2"], "give the share as a number from 0 to 1"),
        (["--attack", "nothing=0.1"], "unknown attack 'nothing'"),
        (["--attack", "overreport=0.1"], "fits no device of this fleet"),
        (["--devices", "21"], "--devices 21: the fleet has only 20 that are not revoked"),
        (["--attack", "stuck=0.6", "--attack", "noise=0.6"], "needs 12 devices, and only 8 are left"),
        (["--attack", "garbage=0.6", "--attack", "replay=0.6"], "add up to more than 1"),
    ],
)
def test_errors_say_what_is_wrong(fleet: Fleet, words: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["simulate", "--fleet", str(fleet.folder), "--reports", "1", *words])
    assert result.exit_code != 0
    assert said in result.output
    assert "secret" not in result.output


def test_addresses() -> None:
    assert BrokerAddress.parse("broker").port == 1883
    assert BrokerAddress.parse("mqtts://broker").port == 8883
    assert BrokerAddress.parse("mqtts://broker").tls
    address = BrokerAddress.parse("mqtt://[::1]:2000")
    assert (address.host, address.port, address.tls) == ("::1", 2000, False)
    for text in ("", "ftp://x", "x:port", "mqtt://x/path"):
        with pytest.raises(PublisherError):
            BrokerAddress.parse(text)


def _own_processes(marker: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker.encode() in path.read_bytes():
                found.append((path.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.fixture
def demo_environment(tmp_path: Path) -> dict[str, str]:
    """Temporary files go to a folder of the test, and every process of the demonstration carries its name."""
    (tmp_path / "temporary").mkdir()
    return {**os.environ, "TMPDIR": str(tmp_path / "temporary")}


def test_a_bounded_demonstration(demo_environment: dict[str, str]) -> None:
    command = [*PEEL, "demo", "--seconds", "8", "--json", "--seed", "1"]
    done = subprocess.run(command, env=demo_environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    said = json.loads(done.stdout)
    assert said["accepted"] >= said["honest"] > 0
    assert (said["honest_exposed"], said["lost"], said["double_counted"]) == (0, 0, 0)
    assert {"seal", "malformed", "rule", "support", "structure", "reused", "coin"} <= set(said["exposed"])
    assert all(row["low"] <= row["value"] <= row["high"] for row in said["estimates"])
    assert re.search(r"^page +http://127\.0\.0\.1:\d+/", done.stderr, re.M)
    temporary = Path(demo_environment["TMPDIR"])
    assert list(temporary.iterdir()) == []
    assert _own_processes(str(temporary)) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demonstration_leaves_nothing_behind(
    demo_environment: dict[str, str], number: signal.Signals
) -> None:
    process = subprocess.Popen([*PEEL, "demo"], env=demo_environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "accepted" in line:
            break
    time.sleep(1)
    process.send_signal(number)
    output = "".join(lines) + process.stdout.read()
    assert process.wait(90) == 0, output
    assert "counted twice  0" in output
    temporary = Path(demo_environment["TMPDIR"])
    assert list(temporary.iterdir()) == []
    assert _own_processes(str(temporary)) == []


def test_a_kept_demonstration_is_continued(demo_environment: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [*PEEL, "demo", "--seconds", "6", "--json", "--dir", folder, "--devices", "40", "--rate", "200"]
        tables = []
        for _ in range(2):
            done = subprocess.run(
                command, env=demo_environment, capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == 0, done.stderr
            tables.append(json.loads(done.stdout))
        assert tables[1]["published"] > tables[0]["published"]
