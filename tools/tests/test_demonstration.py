# SPDX-License-Identifier: MIT
"""`peel demo` fails when its result is wrong."""

from __future__ import annotations

import json
import socket
import sqlite3
from pathlib import Path

from click.testing import CliRunner, Result

from peel_tools.cli import main
from peel_tools.demo.demonstration import Outcome
from peel_tools.simulation.referee import Findings


def _demo(folder: Path, seconds: str, *more: str) -> Result:
    words = ["demo", "--json", "--dir", str(folder), "--devices", "20", "--rate", "300", "--seed", "2"]
    words += ["--seconds", seconds, "--attack", "forgery=0.1", *more]
    return CliRunner().invoke(main, words, catch_exceptions=False)


def test_a_run_that_publishes_nothing_shows_nothing(tmp_path: Path) -> None:
    done = _demo(tmp_path, "0.000001")
    assert done.exit_code == 1
    assert "nothing was published" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["faults"] == ["nothing was published, so nothing is shown"]


def test_a_gateway_that_counts_twice_is_caught(tmp_path: Path) -> None:
    done = _demo(tmp_path, "1.5", "--no-verify")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["faults"] == []
    (store,) = tmp_path.glob("**/peel.sqlite")
    cook = sqlite3.connect(store)
    cook.execute(
        "UPDATE tally SET plus = plus + 5 WHERE (profile, bucket, idx) = (SELECT profile, bucket, idx FROM tally LIMIT 1)"
    )
    cook.commit()
    cook.close()
    done = _demo(tmp_path, "0.5", "--no-verify")
    assert done.exit_code == 1
    assert "5 reports counted twice" in done.stderr


def test_a_broker_that_does_not_acknowledge_in_time_is_a_fault() -> None:
    findings = Findings(
        published=9, unacknowledged=0, honest=9, faulty=0, accepted=9, exposed={}, honest_exposed=0, honest_devices_exposed=0,
        lost=0, double_counted=0, altered=0,
    )  # fmt: skip
    assert Outcome(findings, [], drained=True, confirmed=9, unconfirmed=0).faults == []
    (fault,) = Outcome(findings, [], drained=True, confirmed=8, unconfirmed=1).faults
    assert "not confirmed 1 messages" in fault
    (fault,) = Outcome(findings, [], drained=False, confirmed=9, unconfirmed=0).faults
    assert "not acknowledged everything" in fault


def test_ones_own_data_beside_its_truth(tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    rows = [f"{20 + i % 7},{'open' if i % 4 else 'shut'}" for i in range(50)]
    data.write_text("\n".join(["Temp (°C),Door", *rows]))
    done = _demo(tmp_path / "demo", "2", "--csv", str(data))
    assert done.exit_code == 0, done.output
    assert "2 of 2 columns are reported." in done.stderr
    truth = {row["name"]: row["truth"] for row in json.loads(done.stdout.splitlines()[-1])["estimates"]}
    assert truth.keys() == {"temp", "door: open", "door: shut"}
    assert 22 < truth["temp"] < 24
    assert abs(truth["door: open"] - 0.75) < 0.05


def test_verified_coins_with_every_attacker_of_theirs(tmp_path: Path) -> None:
    attackers = ["malformed_table", "wrong_opening", "withheld_opening", "refused_audit", "budget", "replay"]
    shares = [word for name in attackers for word in ("--attack", f"{name}=0.1")]
    done = _demo(tmp_path, "12", *shares)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["faults"] == []
    assert said["accepted"] == said["honest"] > 100
    for name in attackers[:4]:
        kind = said["attacks"][name]
        assert kind["devices"] == 2
        assert kind["exposed_devices"] == (2 if name in attackers[:2] else 0), name
    assert said["attacks"]["withheld_opening"]["stalled"] > 0
    again = _demo(tmp_path, "3")
    assert again.exit_code == 0, again.output


def test_a_profile_says_itself_whether_its_coins_are_verified(tmp_path: Path) -> None:
    profile = tmp_path / "room.toml"
    profile.write_text("")
    done = _demo(tmp_path, "1", "--no-verify", "--profile", str(profile))
    assert done.exit_code != 0
    assert "--no-verify cannot be combined with --profile" in done.output


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        done = _demo(tmp_path, "1", "--port", port)
    assert done.exit_code == 7
    assert f"port {port} is taken" in done.output


def test_the_fleet_is_mixed_by_default_and_its_truth_has_every_kind(tmp_path: Path) -> None:
    shares = [word for name in ("stuck", "subset", "overreport") for word in ("--attack", f"{name}=0.1")]
    done = _demo(tmp_path, "2", "--no-verify", *shares)
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout.splitlines()[-1])["estimates"]
    truth = {row["name"]: row["truth"] for row in rows}
    assert -10 < truth["temperature"] < 50
    assert 0 <= truth["temperature > 30"] <= truth["temperature > 26"] < 1
    assert truth["co2 > 630"] > truth["co2 > 1090"] > truth["co2 > 1770"] == 0
    assert abs(sum(truth[f"door: {state}"] for state in ("open", "shut", "ajar")) - 1) < 1e-9
    assert any(name.startswith("error: ") for name in truth)
