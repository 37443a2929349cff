# SPDX-License-Identifier: MIT
"""`peel gateway migrate` moves a gateway to PostgreSQL and back, and refuses what it cannot move."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from databases import PostgresSchema
from field import PARTITIONS, Field, WorkerPool

from peel_gateway.exits import Exit


def test_a_gateway_moves_to_postgresql_and_back(
    field: Field, new_schema: Callable[[], PostgresSchema], tmp_path: Path
) -> None:
    schema, file = new_schema(), tmp_path / "back.sqlite"
    pool = WorkerPool(field, schema.url, store_schema=schema.schema)
    gateway = field.new_gateway(store_schema=schema.schema).start()
    sent = field.reports(400)
    field.publish(sent)
    field.wait_accepted(gateway, 400)
    refused = gateway.command("migrate", "--to", schema.url)
    assert (refused.returncode, "Stop it first" in refused.stderr) == (7, True), refused.stderr
    assert gateway.stop() == 0
    done = gateway.command("migrate", "--to", schema.url, "--json")
    assert done.returncode == 0, done.stderr
    assert {key: json.loads(done.stdout)[key] for key in ("reports", "partitions")} == {
        "reports": 400,
        "partitions": PARTITIONS,
    }
    again = gateway.command("migrate", "--to", schema.url)
    assert (again.returncode, "already has reports" in again.stderr) == (4, True), again.stderr

    (moved,) = pool.start()
    pool.wait_shared(moved)
    more = field.reports(200)
    field.publish(more)
    field.wait_accepted(moved, 600)
    owned = moved.command("migrate", "--to", str(file))
    assert (owned.returncode, file.exists()) == (7, False), owned.stderr
    assert moved.stop() == 0
    field.audit(moved, sent + more)
    copied = moved.command("backup", str(tmp_path / "copy"))
    assert (copied.returncode, "pg_dump" in copied.stderr) == (2, True), copied.stderr

    statements = moved.command("schema").stdout
    assert f"SELECT create_distributed_table('{schema.schema}.log', 'partition');" in statements

    done = moved.command("migrate", "--to", str(file))
    assert (done.returncode, "600 reports" in done.stdout) == (0, True), done.stderr
    assert file.stat().st_mode & 0o077 == 0
    back = field.new_gateway("back", store_path=file).start()
    assert back.summary()["totals"]["accepted"] == 600
    assert back.stop() == 0
    field.audit(back, sent + more)


def test_a_server_that_is_not_there_may_come(field: Field) -> None:
    """A retry may succeed, so the exit code is not that of an unusable database."""
    done = field.new_gateway(store_url="postgresql://nobody:hunter2@127.0.0.1:1/none").command("run")
    assert done.returncode == Exit.MISSING
    assert "cannot be reached" in done.stderr and "hunter2" not in done.stderr
