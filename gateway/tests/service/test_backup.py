# SPDX-License-Identifier: MIT
"""Backups of the database: made while reports arrive, restored, and refused when too old."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from field import Field

from peel_gateway.commands.gateway import gateway as gateway_commands
from peel_gateway.settings import Settings
from peel_gateway.storage.choice import restore_store
from peel_gateway.storage.sqlite.files import copy_database
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_gateway.storage.store import StoreFailed
from peel_tools.servers.gateway import GatewayProcess


def test_a_copy_is_taken_while_reports_come_and_put_back(field: Field, tmp_path: Path) -> None:
    gateway = field.new_gateway().start()
    early, late = field.reports(2000), field.reports(1000)
    sending = threading.Thread(target=field.publish, args=(early,))
    sending.start()
    copies = [tmp_path / f"copy{place}.sqlite" for place in range(3)]
    for copy in copies:
        done = gateway.command("backup", str(copy))
        assert done.returncode == 0, done.stderr
        assert copy.stat().st_mode & 0o077 == 0
        assert sorted(path.name for path in tmp_path.glob(f"*{copy.name}*")) == [copy.name], (
            "one file, nothing beside it"
        )
    sending.join()
    field.wait_accepted(gateway, 2000)
    copies.append(tmp_path / "last.sqlite")
    assert gateway.command("backup", str(copies[-1])).returncode == 0
    field.publish(late)
    field.wait_accepted(gateway, 3000)
    refused = gateway.command("restore", str(copies[-1]))
    assert refused.returncode == 7
    assert "Stop it first" in refused.stderr
    assert gateway.stop() == 0
    done = gateway.command("restore", str(copies[-1]))
    assert done.returncode == 0, done.stderr
    assert field.accepted(gateway) == 2000
    (former,) = gateway.store_path.parent.glob("peel.sqlite.before-*")
    assert former.stat().st_size > 0
    field.audit(gateway, early)
    _goes_on(field, gateway_name="gateway")


def _goes_on(field: Field, gateway_name: str) -> None:
    """An old database takes new reports; those between are missing, and nobody is blamed for it."""
    gateway = field.new_gateway(gateway_name).start()
    field.publish(field.reports(200))
    gateway.wait_for(lambda: gateway.summary()["totals"]["accepted"] == 2200)
    totals = gateway.summary()["totals"]
    assert (totals["exposed_devices"], totals["exposed"]) == (0, 0)
    assert gateway.stop() == 0
    assert gateway.command("recount").returncode == 0


def test_what_is_no_copy_leaves_everything_as_it_was(field: Field, tmp_path: Path) -> None:
    gateway = field.new_gateway().start()
    sent = field.reports(20)
    field.publish(sent)
    field.wait_accepted(gateway, 20)
    assert gateway.stop() == 0
    nonsense = tmp_path / "nonsense"
    nonsense.write_bytes(b"no database" * 1000)
    for path, code in ((nonsense, 4), (tmp_path / "none", 7)):
        done = gateway.command("restore", str(path))
        assert done.returncode == code, done.stderr
    assert [
        path for path in gateway.store_path.parent.iterdir() if "before" in path.name or "restored" in path.name
    ] == []
    field.audit(gateway, sent)
    assert gateway.command("backup", str(tmp_path / "no" / "folder")).returncode == 7


def _invoke(gateway: GatewayProcess, *arguments: str) -> Result:
    """Run a `peel gateway` command in this process, which is quicker."""
    return CliRunner().invoke(gateway_commands, arguments, env=gateway.environment())


def _everything(*folders: Path) -> dict[Path, bytes]:
    """Every file and what is in it, but for what SQLite changes when somebody looks."""
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if not path.name.endswith(("-wal", "-shm", ".log"))}


def test_a_copy_overwrites_nothing(field: Field, tmp_path: Path) -> None:
    """Neither a file that exists, nor one that the store or the fleet may need, whatever the spelling of its name."""
    gateway = field.new_gateway().start()
    sent = field.reports(40)
    field.publish(sent)
    field.wait_accepted(gateway, 40)
    store, fleet = gateway.store_path, field.fleet.folder
    (tmp_path / "door").symlink_to(store.parent)
    (tmp_path / "keys").symlink_to(fleet)
    (tmp_path / "link").symlink_to(store)
    (tmp_path / "nowhere").symlink_to(tmp_path / "not there")
    (tmp_path / "hard").hardlink_to(store)
    (tmp_path / "note").write_text("precious")
    live = [store, store.with_name("peel.sqlite-wal"), store.with_name("peel.sqlite-shm")]
    before = _everything(store.parent, fleet)
    for target in (
        *live,
        *(tmp_path / name for name in ("link", "nowhere", "hard", "note", "door/peel.sqlite", "keys/new.sqlite")),
        *(fleet / name for name in ("master.key", "devices.jsonl", "new.sqlite", "profiles/new.sqlite")),
    ):
        done = _invoke(gateway, "backup", str(target))
        assert (done.exit_code, done.stdout) == (2, ""), target
        assert "choose a" in done.stderr
    assert _everything(store.parent, fleet) == before
    assert gateway.stop() == 0
    assert (tmp_path / "note").read_text() == "precious"
    (tmp_path / "hard").unlink()
    for target in (*live[1:], tmp_path / "door" / "peel.sqlite-wal", store.with_name("peel.sqlite-journal")):
        for command in (("backup", str(target)), ("migrate", "--to", str(target))):
            assert _invoke(gateway, *command).exit_code == 2, command
            assert not target.exists()
    itself = _invoke(gateway, "restore", str(tmp_path / "link"))
    assert (itself.exit_code, "name a copy" in itself.stderr) == (2, True)
    field.audit(gateway, sent)


def test_a_file_that_appears_while_a_copy_is_made_stays(tmp_path: Path) -> None:
    source, target = tmp_path / "source.sqlite", tmp_path / "copy.sqlite"
    with sqlite3.connect(source) as database:
        database.execute("CREATE TABLE kept (value)")

    def check(_: Path) -> None:
        target.write_text("precious")

    with pytest.raises(StoreFailed, match="is not overwritten"):
        copy_database(source, target, check)
    assert target.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.sqlite", "source.sqlite"]


def test_restoring_twice_at_once_keeps_every_former_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within one second, and from where a symbolic link leads; what lay beside a former one stays with it."""
    monkeypatch.setattr("time.strftime", lambda _: "now")
    home = tmp_path / "disk"
    home.mkdir()
    (tmp_path / "peel.sqlite").symlink_to(home / "peel.sqlite")
    settings = Settings(store_path=tmp_path / "peel.sqlite", fleet_folder=tmp_path / "fleet")
    SqliteStore(tmp_path / "copy.sqlite").close()
    former = []
    for content in (b"first", b"second", b"third"):
        (home / "peel.sqlite").write_bytes(content)
        (home / "peel.sqlite-wal").write_bytes(content)
        former.append(restore_store(settings, tmp_path / "copy.sqlite"))
    assert len(set(former)) == 3
    for path, content in zip(former, (b"first", b"second", b"third"), strict=True):
        assert path is not None
        assert (path.read_bytes(), path.with_name(path.name + "-wal").read_bytes()) == (content, content)
    assert (tmp_path / "peel.sqlite").is_symlink()
    SqliteStore(tmp_path / "peel.sqlite").close()


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "50% #1?mode=memory" / "peel.sqlite"
    source.parent.mkdir()
    with sqlite3.connect(source) as database:
        database.execute("CREATE TABLE kept (value)")
    copy_database(source, tmp_path / "copy.sqlite", lambda _: None)
    with sqlite3.connect(tmp_path / "copy.sqlite") as copy:
        assert copy.execute("SELECT name FROM sqlite_master").fetchall() == [("kept",)]
