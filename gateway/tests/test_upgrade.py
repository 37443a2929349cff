# SPDX-License-Identifier: MIT
"""Upgrades of the database, by a step that exists only in this test: refusals, changes, and kept data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from databases import Database, PostgresSchema, SqliteFile
from lab import Lab, MakeLab

from peel_gateway.commands.gateway import gateway
from peel_gateway.engine.recount import recount
from peel_gateway.exits import Exit
from peel_gateway.model.verdict import Verdict
from peel_gateway.settings import Settings, load_settings
from peel_gateway.storage.choice import open_leases
from peel_gateway.storage.sql import schema
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.schema import STEPS, Step, schema_version
from peel_gateway.storage.sqlite.files import GatewayLock
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_gateway.storage.store import StoreTooNew, StoreTooOld
from peel_tools.doctor import look_at_database


def _count_devices(partition: Connection) -> None:
    devices = partition.value("SELECT COUNT(*) FROM {device} AS device")
    partition.put("meta", {"key": ["devices"]}, {"value": [devices]})


NEXT = (
    Step("gives devices a colour", "ALTER TABLE device ADD COLUMN colour {int} NOT NULL DEFAULT 7;"),
    Step(
        "counts devices",
        "CREATE TABLE shade ({partition}\n    name TEXT NOT NULL,\n    data {blob}\n);",
        _count_devices,
    ),
)


def test_steps_lead_to_the_version_of_this_gateway() -> None:
    assert schema_version() == 1 + len(STEPS)
    assert all(step.summary and (step.statements or step.rewrite) for step in STEPS)


@pytest.fixture
def old(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A database with reports, before a gateway came that needs two steps more."""
    lab = make_lab()
    lab.send(lab.frames(1, range(1, 31)) + lab.frames(2, range(1, 31)))
    lab.store.close()
    monkeypatch.setattr(schema, "STEPS", STEPS + NEXT)
    return lab


@pytest.fixture
def environment(old: Lab, tmp_path: Path) -> dict[str, str]:
    """The environment that names the database for a command."""
    database = old.database
    given = {"store_path": str(tmp_path / "peel.sqlite"), "fleet_folder": str(tmp_path / "fleet"), "http_port": "0"}
    if isinstance(database, SqliteFile):
        given["store_path"] = str(database.path)
    elif isinstance(database, PostgresSchema):
        given |= {"store_url": database.url, "store_schema": database.schema, "store_partitions": "1"}
    return {f"PEEL_GATEWAY_{name.upper()}": value for name, value in given.items()}


@pytest.fixture
def settings(environment: dict[str, str]) -> Settings:
    return load_settings(None, environment)


@pytest.fixture
def run(environment: dict[str, str]) -> Callable[..., Result]:
    """Run `peel gateway upgrade`; a server's database is said to be backed up."""
    backed_up = ["--backed-up"] if "PEEL_GATEWAY_STORE_URL" in environment else []
    return lambda *more: CliRunner().invoke(gateway, ["upgrade", *backed_up, *more], env=environment)


def version_in(database: Database) -> int:
    found = "PRAGMA user_version" if isinstance(database, SqliteFile) else "SELECT version FROM made"
    ((version,),) = database.execute(found)
    return int(version)


def test_an_old_database_is_refused_until_it_is_upgraded(
    old: Lab, run: Callable[..., Result], settings: Settings
) -> None:
    with pytest.raises(StoreTooOld, match="run `peel gateway upgrade`"):
        old.database.open()
    (finding,) = [each for each in look_at_database(settings) if each.about == "database"]
    assert (finding.state, "`peel gateway upgrade`" in finding.remedy) == ("bad", True)
    assert "Restore" not in finding.remedy

    done = run("--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["before"], said["after"]) == (1, 3)
    assert said["steps"] == [
        {"version": 2, "summary": "gives devices a colour"},
        {"version": 3, "summary": "counts devices"},
    ]
    assert version_in(old.database) == 3
    assert old.database.execute("SELECT DISTINCT colour FROM device") == [(7,)]
    assert old.database.execute("SELECT value FROM meta WHERE key = 'devices'") == [(2,)]

    old.store = old.database.open()
    assert old.store.counts().verdicts[Verdict.ACCEPTED] == 60
    old.engine = old.make_engine()
    old.send(old.frames(1, range(31, 41)))
    assert recount(old.store, old).differences == []
    old.store.close()
    again = run()
    assert (again.exit_code, "has version 3 already" in again.stdout) == (0, True), again.output


def test_a_copy_of_the_old_file_is_kept(old: Lab, run: Callable[..., Result]) -> None:
    if not isinstance(old.database, SqliteFile):
        return
    backup = Path(json.loads(run("--json").stdout)["backup"])
    assert backup.parent == old.database.path.parent
    assert backup.stat().st_mode & 0o077 == 0
    assert version_in(SqliteFile(backup)) == 1
    assert SqliteFile(backup).execute("SELECT COUNT(*) FROM device") == [(2,)]


def test_a_server_wants_a_copy_first(old: Lab, environment: dict[str, str]) -> None:
    if isinstance(old.database, SqliteFile):
        return
    done = CliRunner().invoke(gateway, ["upgrade"], env=environment)
    assert (done.exit_code, "pg_dump" in done.stderr) == (Exit.USAGE, True)
    assert version_in(old.database) == 1


def test_a_step_that_fails_changes_nothing(
    old: Lab, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Connection) -> None:
        raise RuntimeError("half way")

    monkeypatch.setattr(schema, "STEPS", (*STEPS, *NEXT, Step("fails", rewrite=fail)))
    assert isinstance(run().exception, RuntimeError)
    assert version_in(old.database) == 1
    assert old.database.execute("SELECT COUNT(*) FROM meta WHERE key = 'devices'") == [(0,)]
    monkeypatch.setattr(schema, "STEPS", STEPS)
    old.database.open().close()


@pytest.mark.slow
def test_while_a_gateway_runs_nothing_is_upgraded(
    old: Lab, run: Callable[..., Result], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(old.database, SqliteFile):
        with GatewayLock(old.database.path):
            done = run()
    else:
        with monkeypatch.context() as before:
            before.setattr(schema, "STEPS", STEPS)
            leases = open_leases(settings)
        assert leases is not None
        assert leases.acquire(0, "another", 60.0)
        leases.close()
        done = run()
    assert (done.exit_code, "first" in done.stderr) == (Exit.MISSING, True), done.output
    assert version_in(old.database) == 1


def test_an_open_store_is_not_written_after_an_upgrade(make_lab: MakeLab) -> None:
    """A command that was started before it, for example."""
    lab = make_lab()
    lab.send(lab.frames(1, [1]))
    statement = "PRAGMA user_version = 2" if isinstance(lab.database, SqliteFile) else "UPDATE made SET version = 2"
    lab.database.execute(statement)
    with pytest.raises(StoreTooNew, match="upgrade the gateway"):
        lab.send(lab.frames(1, [2]))


def test_a_newer_database_is_left_alone(old: Lab, run: Callable[..., Result], settings: Settings) -> None:
    statement = "PRAGMA user_version = 9" if isinstance(old.database, SqliteFile) else "UPDATE made SET version = 9"
    old.database.execute(statement)
    done = run()
    assert (done.exit_code, "upgrade the gateway" in done.stderr) == (Exit.STORE, True)
    assert version_in(old.database) == 9
    (finding,) = [each for each in look_at_database(settings) if each.about == "database"]
    assert (finding.state, "Install" in finding.remedy) == ("bad", True)


def test_an_old_copy_can_be_made_restored_and_upgraded(
    old: Lab, environment: dict[str, str], run: Callable[..., Result], tmp_path: Path
) -> None:
    if not isinstance(old.database, SqliteFile):
        return
    copy = str(tmp_path / "copy.sqlite")
    for command in (["backup", copy], ["restore", copy]):
        done = CliRunner().invoke(gateway, command, env=environment)
        assert done.exit_code == 0, done.output
    assert version_in(old.database) == 1
    assert run().exit_code == 0
    store = SqliteStore(old.database.path)
    store.check()
    assert store.counts().verdicts[Verdict.ACCEPTED] == 60
    store.close()
