# SPDX-License-Identifier: MIT
"""PostgreSQL only: a server that goes away and comes back, its errors, its secrets, its tables."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from databases import PostgresSchema
from lab import Lab, harmony_profile

from peel_core import Secret
from peel_gateway.engine.recount import recount
from peel_gateway.model.messages import Message
from peel_gateway.model.verdict import Verdict
from peel_gateway.settings import Settings
from peel_gateway.storage.choice import missing_store, open_archive
from peel_gateway.storage.postgres.schema import distribution
from peel_gateway.storage.postgres.store import PostgresArchive
from peel_gateway.storage.sql.schema import TABLES
from peel_gateway.storage.store import (
    StoreAway,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreMismatch,
    StoreRejected,
    StoreTooNew,
)
from peel_tools.doctor import look_at_database
from peel_tools.servers.postgres import PostgresServer

BATCH = 40


@pytest.fixture
def schema(new_schema: Callable[[], PostgresSchema]) -> PostgresSchema:
    return new_schema()


@pytest.fixture
def lab(schema: PostgresSchema, rng: np.random.Generator) -> Iterator[Lab]:
    lab = Lab(schema, (harmony_profile(),), 4, rng)
    yield lab
    lab.store.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """One that a test may end, and that writes to disk what it commits."""
    with PostgresServer() as server:
        yield server


def insist(lab: Lab, frames: list[bytes]) -> dict[str, int]:
    """As ingest does: the same batch again until it is stored."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return lab.send(frames)
        except StoreError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_server_that_was_restarted_is_found_again(own_server: PostgresServer, rng: np.random.Generator) -> None:
    lab = Lab(PostgresSchema(own_server.url, "peel"), (harmony_profile(),), 4, rng)
    lab.send(lab.frames(1, range(1, 11)))
    own_server.stop()
    with pytest.raises(StoreAway, match="cannot be reached"):
        lab.send(lab.frames(1, range(11, 21)))
    with pytest.raises(StoreAway, match="cannot be reached"):
        lab.store.counts()
    own_server.start()
    assert lab.store.counts().verdicts[Verdict.ACCEPTED] == 10
    assert lab.send(lab.frames(1, range(21, 31))) == {"accepted": 10}
    own_server.stop()
    own_server.start()
    assert lab.send(lab.frames(1, range(31, 41))) == {"accepted": 10}, "nobody need notice"
    lab.store.close()


def test_a_server_that_is_killed_at_any_moment_under_load(own_server: PostgresServer, rng: np.random.Generator) -> None:
    """Whether a commit that nobody has heard of was made or not: the batch comes again, and counts once."""
    lab = Lab(PostgresSchema(own_server.url, "peel"), (harmony_profile(),), 4, rng)
    frames = [frame for device in (1, 2, 3) for frame in lab.frames(device, range(1, 801))]
    frames += [b"junk %d" % i for i in range(100)]
    rng.shuffle(frames)
    done = threading.Event()

    def kill() -> None:
        for _ in range(3):
            time.sleep(float(rng.uniform(0.1, 0.6)))
            if not done.is_set():
                own_server.kill()
                own_server.start()

    killer = threading.Thread(target=kill)
    killer.start()
    for start in range(0, len(frames), BATCH):
        insist(lab, frames[start : start + BATCH])
    done.set()
    killer.join()
    counts = lab.store.counts().verdicts
    assert (counts[Verdict.ACCEPTED], counts[Verdict.MALFORMED]) == (2400, 100)
    assert recount(lab.store, lab).agrees
    lab.store.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("53100", StoreFull),
        ("XX001", StoreCorrupt),
        ("40P01", StoreLocked),
        ("42501", StoreFailed),
        ("57P01", StoreAway),
        ("22003", StoreRejected),
        ("23505", StoreRejected),
        ("54000", StoreRejected),
    ],
)
def test_errors_are_the_stores_and_nothing_is_applied(
    lab: Lab, schema: PostgresSchema, code: str, kind: type[StoreError]
) -> None:
    """A server that cannot write the last of a batch's tables."""
    lab.send(lab.frames(1, range(1, 11)))
    schema.execute(
        f"""CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{code}'; END $$"""
    )
    schema.execute("CREATE TRIGGER refuse BEFORE UPDATE ON meta FOR EACH ROW EXECUTE FUNCTION refuse()")
    batch = [*lab.frames(1, range(11, 21)), b"junk"]
    with pytest.raises(kind, match=schema.schema):
        lab.send(batch)
    assert lab.store.counts().verdicts[Verdict.ACCEPTED] == 10
    assert len(lab.store.exposures()) == 0
    schema.execute("DROP TRIGGER refuse ON meta")
    assert lab.send(batch) == {"accepted": 10, "malformed": 1}
    assert recount(lab.store, lab).agrees


def test_a_server_that_only_reads_is_told(schema: PostgresSchema) -> None:
    with pytest.raises(StoreFailed, match="name the primary"):
        PostgresArchive(f"{schema.url}&options=-cdefault_transaction_read_only%3Don", schema=schema.schema)


def test_a_password_shows_nowhere() -> None:
    url = "postgresql://peel:hunter2@127.0.0.1:1/peel"
    with pytest.raises(StoreFailed) as failed:
        PostgresArchive(url)
    assert "hunter2" not in str(failed.value) + repr(failed.value.__cause__)
    assert "peel@127.0.0.1:1/peel" in str(failed.value)
    assert "hunter2" not in repr(Settings(store_url=Secret(url.encode())))
    with pytest.raises(StoreFailed) as failed:
        PostgresArchive("postgresql://peel:hunter2@[/peel")
    assert "hunter2" not in str(failed.value)


def test_a_topic_that_postgresql_cannot_hold_stops_nothing(lab: Lab) -> None:
    """Brokers should refuse NUL in a topic; one that does not must not be able to stop the gateway."""
    report = lab.engine.process([Message("peel/v1/lab/00/\0/report", b"junk", lab.now)])
    assert report.counts == {Verdict.MALFORMED: 1}
    (held,) = lab.store.exposures()
    assert held.topic == "peel/v1/lab/00/\ufffd/report"


def test_commits_are_on_disk_whatever_the_role_is_used_to(schema: PostgresSchema) -> None:
    store = PostgresSchema(f"{schema.url}&options=-csynchronous_commit%3Doff", schema.schema).open()
    raw = store._writer.begin("BEGIN")
    assert raw.execute("SHOW synchronous_commit").fetchone() == ("on",)
    store.close()


def test_many_make_the_tables_at_once(schema: PostgresSchema) -> None:
    found: list[int] = []

    def open_it(partitions: int) -> None:
        try:
            archive = schema.archive(partitions=partitions)
            found.append(archive.partitions)
            archive.close()
        except StoreMismatch:
            found.append(0)

    threads = [threading.Thread(target=open_it, args=(partitions,)) for partitions in (2, 4, 2, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) in ([0, 0, 2, 2], [0, 0, 4, 4]), "who comes first decides"


def test_other_settings_and_newer_tables_are_refused(lab: Lab, schema: PostgresSchema) -> None:
    with pytest.raises(StoreMismatch, match=r"store\.partitions = 1, the setting is 8"):
        schema.archive(partitions=8)
    with pytest.raises(StoreMismatch, match=r"store\.bucket_seconds = 300, the setting is 60"):
        schema.archive(bucket_seconds=60)
    schema.execute("UPDATE made SET version = version + 1")
    with pytest.raises(StoreTooNew, match="upgrade the gateway"):
        schema.archive()
    with pytest.raises(StoreTooNew):
        lab.send(lab.frames(1, [1]))


def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("peel_gateway.storage.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreFailed, match=r"pip install 'peel-telemetry\[postgres\]'"):
        open_archive(Settings(store_url=Secret(b"postgresql:///peel")))


def test_every_table_can_be_distributed_by_partition(lab: Lab, schema: PostgresSchema) -> None:
    """Citus needs the partition in every unique key. Every table with a partition is in the statements."""
    rows = schema.execute(
        """SELECT relname, pg_get_constraintdef(pg_constraint.oid) FROM pg_constraint JOIN pg_class ON conrelid = pg_class.oid
           WHERE connamespace = current_schema()::regnamespace AND contype IN ('p', 'u')"""
    )
    keys = [(table, key) for table, key in rows if table in TABLES]
    assert {table for table, _ in keys} == set(TABLES)
    assert all("(partition, " in key for _, key in keys), keys
    said = distribution(schema.schema)
    assert all(f"create_distributed_table('{schema.schema}.{table}', 'partition'" in said for table in TABLES)


def test_who_only_looks_makes_no_tables(schema: PostgresSchema) -> None:
    settings = Settings(store_url=Secret(schema.url.encode()), store_schema=schema.schema)
    assert missing_store(settings) == f"store.url: the schema {schema.schema} has no tables"
    *_, found = look_at_database(settings)
    assert (found.about, "not there yet" in found.said) == ("database", True)
    assert missing_store(settings), "the doctor changes nothing"
    open_archive(settings).close()
    assert not missing_store(settings)
    away = Settings(store_url=Secret(b"postgresql://nobody@127.0.0.1:1/none"))
    *_, found = look_at_database(away)
    assert "cannot be reached" in found.said and "Start the server" in found.remedy
