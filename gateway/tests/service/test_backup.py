# SPDX-License-Identifier: MIT
"""Copies of the database, made while reports come in, and put back; and what an old one means."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

from field import Field

from peel_gateway.storage.sqlite.backup import copy_database


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
    assert gateway.command("backup", str(copies[-1])).returncode == 0
    field.publish(late)
    field.wait_accepted(gateway, 3000)
    refused = gateway.command("restore", str(copies[-1]))
    assert refused.returncode == 2
    assert "stop it first" in refused.stderr
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


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "50% #1?mode=memory" / "peel.sqlite"
    source.parent.mkdir()
    with sqlite3.connect(source) as database:
        database.execute("CREATE TABLE kept (value)")
    copy_database(source, tmp_path / "copy.sqlite")
    with sqlite3.connect(tmp_path / "copy.sqlite") as copy:
        assert copy.execute("SELECT name FROM sqlite_master").fetchall() == [("kept",)]
