# SPDX-License-Identifier: MIT
"""`peel gateway export`: its files are read back by Python's csv module and by pyarrow."""

from __future__ import annotations

import csv
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
from field import Field, MakeField

from peel_gateway.model.verdict import Verdict
from peel_gateway.queries import export
from peel_gateway.queries.parameters import ExportQuery
from peel_gateway.storage.records import read_log
from peel_tools.servers.gateway import GatewayProcess


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, start_field: MakeField) -> GatewayProcess:
    """A stopped gateway with 200 good reports, ten of which were withdrawn with their device."""
    field = start_field(tmp_path_factory.mktemp("export"))
    field.fleet.tag([1, 2, 20], add=["北棟"])
    gateway = field.new_gateway().start()
    field.publish(field.reports(200))
    field.wait_accepted(gateway, 200)
    field.publish(field.reports(1, devices=[20], odds=(5, 1)))
    gateway.wait_for(lambda: gateway.summary()["totals"]["exposed"] == 1)
    assert gateway.stop() == 0
    return gateway


def exported(gateway: GatewayProcess, path: Path, *words: str) -> int:
    done = gateway.command("export", str(path), *words, "--json")
    assert done.returncode == 0, done.stderr
    assert path.stat().st_mode & 0o077 == 0
    rows: int = json.loads(done.stdout)["rows"]
    return rows


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
        return rows
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_reports_are_those_of_the_log(gateway: GatewayProcess, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"reports.{suffix}"
    assert exported(gateway, path) == 201
    with gateway.store() as store:
        log = read_log(store)
    mine = sorted((row["device"], int(row["number"]), row["verdict"], int(row["sign"])) for row in rows_of(path))
    verdicts = [Verdict(verdict).label for verdict in log.verdict.tolist()]
    columns = (log.device.tolist(), log.number.tolist(), verdicts, log.sign.tolist())
    assert mine == sorted((f"{device:08x}", *rest) for device, *rest in zip(*columns, strict=True))
    assert sum(int(row["withdrawn"]) for row in rows_of(path)) == 11
    received = rows_of(path)[0]["received"]
    moment = received if isinstance(received, datetime) else datetime.fromisoformat(received)
    assert abs(datetime.now(UTC) - moment) < timedelta(hours=1)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_estimates_and_exposures(gateway: GatewayProcess, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"estimates.{suffix}"
    exported(gateway, path, "--table", "estimates")
    rows = rows_of(path)
    assert {row["name"] for row in rows} == {"temperature", "soil"}
    assert sum(int(row["n"]) for row in rows) == 190
    assert all(float(row["low"]) <= float(row["value"]) <= float(row["high"]) for row in rows)
    path = tmp_path / f"exposures.{suffix}"
    assert exported(gateway, path, "--table", "exposures") == 1
    (exposure,) = rows_of(path)
    assert (exposure["device"], exposure["verdict"]) == ("00000014", "rule")


def test_a_time_can_be_asked_for(gateway: GatewayProcess, tmp_path: Path) -> None:
    assert exported(gateway, tmp_path / "x.csv", "--since", "2999-01-01") == 0
    assert exported(gateway, tmp_path / "x.csv", "--until", "2999-01-01") == 201
    assert exported(gateway, tmp_path / "x.parquet", "--since", "2999-01-01", "--table", "exposures") == 0
    with (tmp_path / "x.csv").open() as file:
        assert file.readline().startswith("device,number,received")


def test_the_devices_with_a_tag_can_be_asked_for(gateway: GatewayProcess, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    assert exported(gateway, path, "--tag", "北棟") == 31
    assert {row["device"] for row in rows_of(path)} == {"00000001", "00000002", "00000014"}
    exported(gateway, path, "--table", "estimates", "--tag", "北棟")
    assert sum(int(row["n"]) for row in rows_of(path)) == 20
    assert exported(gateway, path, "--table", "exposures", "--tag", "北棟") == 1
    path.unlink()
    for table in export.TABLES:
        refused = gateway.command("export", str(path), "--table", table, "--tag", "南棟")
        assert (refused.returncode, path.exists()) == (2, False)
        assert "tag: no device has '南棟'; the tags are: 北棟" in refused.stderr


def test_what_cannot_be_written_leaves_nothing(gateway: GatewayProcess, tmp_path: Path) -> None:
    for words, said in (
        ((str(tmp_path / "x.xlsx"),), "end with .csv or .parquet"),
        ((str(tmp_path / "none" / "x.csv"),), "cannot be written"),
        ((str(tmp_path / "x.csv"), "--since", "soon"), "since: 'soon' is neither"),
    ):
        done = gateway.command("export", *words)
        assert done.returncode == 2
        assert said in done.stderr
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(("decision", "withdrawn", "counted"), [("--forfeit", 21, 10), ("--restore", 0, 30)])
def test_what_a_pardon_has_left_withdrawn_is_so_in_the_file_and_in_the_list_of_devices(
    field: Field, tmp_path: Path, decision: str, withdrawn: int, counted: int
) -> None:
    gateway = field.new_gateway().start()
    field.publish(field.reports(40, devices=[1, 2]))
    field.wait_accepted(gateway, 40)
    field.publish(field.reports(1, devices=[2], odds=(5, 1)))
    gateway.wait_for(lambda: gateway.summary()["totals"]["exposed"] == 1)
    assert gateway.command("pardon", "2", "--reason", "a test", decision).returncode == 0
    field.publish(field.reports(10, devices=[2]))
    field.wait_accepted(gateway, 50)
    assert [row["counted"] for row in gateway.get("/api/devices")["items"]][:3] == [20, counted, 0]
    assert gateway.stop() == 0
    assert exported(gateway, tmp_path / "reports.csv") == 51
    assert sum(int(row["withdrawn"]) for row in rows_of(tmp_path / "reports.csv")) == withdrawn


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1+1", "\r=1+1"])
def test_no_cell_of_text_is_a_formula(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    """A spreadsheet runs a cell that begins like a formula. Units, names and topics are text that others choose."""
    _, kinds = export.TABLES["estimates"]
    row = {
        name: [-1.5 if kind == "number" else 0 if kind in ("time", "integer") else text] for name, kind in kinds.items()
    }
    monkeypatch.setitem(export.TABLES, "estimates", (lambda source, span: iter([row]), kinds))
    source: Any = None
    path = tmp_path / "estimates.csv"
    assert export.export(source, "estimates", path, ExportQuery()) == 1
    with path.open(newline="", encoding="utf-8") as file:
        (cells,) = csv.DictReader(file)
    assert {name: cells[name] for name in ("profile", "name", "unit")} == dict.fromkeys(
        ("profile", "name", "unit"), f"'{text}"
    )
    assert cells["value"] == "-1.5", "numbers are left alone"
