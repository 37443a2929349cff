# SPDX-License-Identifier: MIT
"""`peel device run`: the application on this machine, under CPython and MicroPython, over TCP and TLS, to a real broker and gateway."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers import make_certificates

from peel_gateway.fleet.bundle import write_bundles
from peel_gateway.fleet.folder import Fleet
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import read_log
from peel_tools.servers.broker import Broker, BrokerTls
from peel_tools.servers.gateway import Site

PROFILE = """
name = "climate"
epsilon = 1.0
verify = false
width = 48
seed = 1
quota = 6000
period = 60
[[attribute]]
name = "temperature"
kind = "mean"
unit = "degC"
low = -10
high = 50
"""
SENSOR = """
def temperature():
    return 21.5
"""
PEEL = [sys.executable, "-m", "peel_tools"]


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    toml = tmp_path / "climate.toml"
    toml.write_text(PROFILE)
    return Fleet.create(tmp_path / "fleet", "lab", [toml])


def bundle_of(fleet: Fleet) -> Path:
    (path,) = write_bundles(fleet, fleet.add("climate"), {})
    return path


@contextmanager
def site(fleet: Fleet, tls: BrokerTls | None = None) -> Iterator[Site]:
    """A broker and a gateway that knows the fleet."""
    made = Site(fleet.folder.parent, fleet, Broker(tls=tls, embedded=False))
    secured = {"mqtt_tls": "true", "mqtt_ca": tls.ca} if tls else {}
    made.add_gateway(settings={"batch_seconds": 0.02, **secured})
    with made:
        yield made


@contextmanager
def running(*words: object) -> Iterator[subprocess.Popen[str]]:
    """`peel device run` with these words; pulled out of the socket at the end."""
    command = [*PEEL, "device", "run", *map(str, words)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


def accepted(where: Site) -> list[int]:
    with where.gateway.store() as store:
        log = read_log(store, 1)
    assert set(log.verdict.tolist()) <= {int(Verdict.ACCEPTED)}
    numbers: list[int] = log.number.tolist()
    return numbers


@pytest.mark.parametrize("interpreter", [[], ["--micropython"]], ids=["cpython", "micropython"])
@pytest.mark.parametrize("secured", [False, True], ids=["tcp", "tls"])
def test_reports_reach_a_gateway(fleet: Fleet, tmp_path: Path, interpreter: list[str], secured: bool) -> None:
    tls = make_certificates(tmp_path) if secured else None
    bundle = bundle_of(fleet)
    with site(fleet, tls) as where:
        address = f"{'mqtts' if tls else 'mqtt'}://localhost:{where.broker.port}"
        ca = ["--ca", tls.ca] if tls else []
        with running(bundle, "--broker", address, *ca, "--simulate", "7", "--interval", "0.01", *interpreter):
            where.wait_for_accepted(30, 60)
    assert accepted(where)[:30] == list(range(1, 31))


@pytest.mark.parametrize("interpreter", [[], ["--micropython"]], ids=["cpython", "micropython"])
def test_a_broker_of_another_ca_gets_nothing(fleet: Fleet, tmp_path: Path, interpreter: list[str]) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    tls = make_certificates(mine)
    bundle = bundle_of(fleet)
    with Broker(tls=tls, embedded=False) as broker:
        words = [bundle, "--broker", f"mqtts://localhost:{broker.port}", "--ca", make_certificates(other).ca]
        with running(*words, "--simulate", "7", "--interval", "0.01", *interpreter) as process:
            assert process.stdout is not None
            said = [process.stdout.readline() for _ in range(3)]
    assert "is up on host" in said[0], said
    assert all("link fault" in line for line in said[1:]), said
    assert len(list(bundle.with_suffix(".flash").glob("peel/*/outbox/0*"))) > 0


def test_a_kill_is_a_power_cut_and_the_folder_is_the_flash(fleet: Fleet) -> None:
    bundle = bundle_of(fleet)
    with site(fleet) as where:
        words = ["--broker", f"localhost:{where.broker.port}", "--simulate", "7", "--interval", "0.01"]
        for cut in range(1, 4):
            with running(bundle if cut == 1 else bundle.with_suffix(".flash"), *words) as process:
                where.wait_for_accepted(20 * cut, 60)
                process.send_signal(signal.SIGKILL)
        numbers = accepted(where)
    assert len(set(numbers)) == len(numbers)
    assert where.verdicts().keys() <= {"accepted", "redelivered"}


def test_a_bundle_belongs_to_one_flash(fleet: Fleet, tmp_path: Path) -> None:
    bundle = bundle_of(fleet)
    with running(bundle, "--simulate", "1") as process:
        assert process.stdout is not None
        assert "is up on host" in process.stdout.readline()
    command = [*PEEL, "device", "run", str(bundle), "--flash", str(tmp_path / "other")]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.returncode == 7
    assert "Write a new bundle with `peel fleet bundle" in second.stderr
    assert not (tmp_path / "other").exists()


def test_a_sensor_of_ones_own(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SENSOR)
    sensors = {"temperature": {"kind": "callable", "module": "mine", "function": "temperature"}}
    (path,) = write_bundles(fleet, fleet.add("climate"), {"sensors": sensors})
    with site(fleet) as where:
        words = [path, "--broker", f"localhost:{where.broker.port}", "--interval", "0.01"]
        without = subprocess.run(
            [*PEEL, "device", "run", *map(str, words)], capture_output=True, text=True, timeout=60, check=False
        )
        assert without.returncode == 1
        assert "mine" in without.stdout + without.stderr
        with running(*words, "--file", tmp_path / "mine.py"):
            where.wait_for_accepted(10, 60)


def test_what_is_wrong_with_a_bundle_is_said(fleet: Fleet, tmp_path: Path) -> None:
    bundle = bundle_of(fleet)
    done = subprocess.run([*PEEL, "device", "run", str(bundle)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "sensors.temperature: is missing: each reading needs a sensor" in done.stdout
    with running(bundle, "--simulate", "1") as process:  # nothing was begun, so nothing stands in the way
        assert process.stdout is not None
        assert "is up on host" in process.stdout.readline()
    half = tmp_path / "half.json"
    half.write_text(bundle.read_text()[:40])
    done = subprocess.run([*PEEL, "device", "run", str(half)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 7
    assert "is not a whole bundle (Expecting" in done.stderr


def lines_until(process: subprocess.Popen[str], *wanted: str) -> list[str]:
    """Return the lines that a device prints until all of the wanted texts have appeared."""
    assert process.stdout is not None
    said: list[str] = []
    while not all(any(text in line for line in said) for text in wanted):
        said.append(process.stdout.readline())
        assert said[-1], said
    return said


@pytest.mark.parametrize("interpreter", [[], ["--micropython"]], ids=["cpython", "micropython"])
def test_verbose_shows_readings_reports_and_the_quota(tmp_path: Path, interpreter: list[str]) -> None:
    """The quota allows one report at once, so the second waits however slow this machine is."""
    (tmp_path / "climate.toml").write_text(PROFILE.replace("quota = 6000", "quota = 8"))
    fleet = Fleet.create(tmp_path / "fleet", "lab", [tmp_path / "climate.toml"])
    sensors = {"temperature": {"kind": "trace", "values": [21.5]}}
    (path,) = write_bundles(fleet, fleet.add("climate"), {"sensors": sensors})
    with Broker(embedded=False) as broker:
        words = [path, "--broker", f"localhost:{broker.port}", "--interval", "0", "--verbose", *interpreter]
        with running(*words) as process:
            said = lines_until(process, "peel: sent 1", "s for the quota")
    assert "peel: readings: temperature 21.5\n" in said
    assert any(re.fullmatch(r"peel: report 1 answers temperature: 38 bytes, 10[0-9a-f]{74}\n", line) for line in said)
    assert any(re.fullmatch(r"peel: report \d+ waits \d+\.\d s for the quota\n", line) for line in said)


def test_verbose_shows_the_text_that_a_sensor_gave_for_a_number(fleet: Fleet) -> None:
    sensors = {"temperature": {"kind": "trace", "values": ["warm"]}}
    (path,) = write_bundles(fleet, fleet.add("climate"), {"sensors": sensors})
    with running(path, "--broker", "localhost:1", "--interval", "0", "--verbose") as process:
        said = lines_until(process, "peel: readings: temperature 'warm'")
    assert "peel: no report, a sensor failed: temperature: it gave a str, not a number\n" in said


def test_verbose_names_a_sensor_that_fails_beside_one_that_works(tmp_path: Path) -> None:
    door = '[[attribute]]\nkind = "category"\nname = "door"\ncategories = ["open", "shut"]\n'
    (tmp_path / "climate.toml").write_text(PROFILE + door)
    fleet = Fleet.create(tmp_path / "fleet", "lab", [tmp_path / "climate.toml"])
    sensors = {
        "temperature": {"kind": "trace", "values": ["warm"]},
        "door": {"kind": "trace", "values": ["open"]},
    }
    (path,) = write_bundles(fleet, fleet.add("climate"), {"sensors": sensors})
    with running(path, "--broker", "localhost:1", "--interval", "0", "--verbose") as process:
        said = lines_until(process, "peel: report 1 answers ")
    assert "peel: failing sensors: temperature: it gave a str, not a number\n" in said
    assert "peel: readings: temperature 'warm', door 'open'\n" in said


def test_a_failing_sensor_is_named_by_fleet_list(fleet: Fleet) -> None:
    """The status names the sensor and the type of the value. The value itself may be a reading, so it stays on the device."""
    sensors = {"temperature": {"kind": "trace", "values": ["21.5"]}}
    (path,) = write_bundles(fleet, fleet.add("climate"), {"sensors": sensors})
    fault = "temperature: it gave a str, not a number"
    with site(fleet) as where:
        with running(path, "--broker", f"localhost:{where.broker.port}", "--interval", "0.01"):
            where.wait(lambda: _failing(where) == fault, "the status of a failing sensor")
        # The gateway's memory is ahead of the database, which is what the command reads.
        listed: list[str] = []

        def is_listed() -> bool:
            listed[:] = [where.gateway.peel("fleet", "list", str(fleet.folder)).stdout]
            return fault in listed[0]

        where.wait(is_listed, "the failing sensor in fleet list")
        assert "sensor failing" in listed[0] and "21.5" not in listed[0]


def _failing(where: Site) -> str | None:
    (device,) = where.ask("/api/devices")["items"]
    return (device["claims"] or {}).get("failing")


def test_readings_are_not_printed_without_verbose(fleet: Fleet) -> None:
    bundle = bundle_of(fleet)
    with Broker(embedded=False) as broker:
        words = [bundle, "--broker", f"localhost:{broker.port}", "--simulate", "1", "--interval", "0.01"]
        with running(*words) as process:
            lines_until(process, "is up on host")  # however long this machine takes to start it
            time.sleep(3)
            process.kill()
            assert process.stdout is not None
            said = process.stdout.read()
    assert len(list(bundle.with_suffix(".flash").glob("peel/*/outbox/0*"))) > 0, "it has reported"
    assert "readings" not in said and "answers" not in said


@pytest.mark.parametrize("interpreter", [[], ["--micropython"]], ids=["cpython", "micropython"])
def test_reports_with_verified_coins_count_at_a_gateway(tmp_path: Path, interpreter: list[str]) -> None:
    """Commitment, audit, report, challenge and opening over a real broker: all reports of ended time buckets count."""
    toml = tmp_path / "climate.toml"
    toml.write_text(PROFILE.replace("verify = false\n", "offline = 1\nbucket = 1\n"))
    fleet = Fleet.create(tmp_path / "fleet", "lab", [toml])
    bundle = bundle_of(fleet)
    made = Site(tmp_path, fleet, Broker(embedded=False))
    made.add_gateway(settings={"batch_seconds": 0.02, "store_bucket_seconds": 1, "mqtt_receipt_seconds": 0.05})
    with made as where:
        address = f"mqtt://localhost:{where.broker.port}"
        with running(bundle, "--broker", address, "--simulate", "7", "--interval", "0.02", *interpreter):
            where.wait_for_accepted(60, 60)
        with where.gateway.store() as store:
            log = read_log(store, 1)
    assert set(log.verdict.tolist()) == {int(Verdict.HELD), int(Verdict.ACCEPTED), int(Verdict.REVEALED)}
    assert log.number.tolist() == list(range(1, len(log) + 1)), "each number has one report or was revealed"
    assert where.gateway.peel("gateway", "recount").returncode == 0
