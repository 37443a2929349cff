# SPDX-License-Identifier: MIT
"""Fixtures: databases, and labs on them."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from databases import Database, PostgresSchema, SqliteFile
from lab import Lab, MakeLab, Makers, harmony_profile, krr_profile

from peel_core import Profile
from peel_tools.servers.postgres import PostgresServer

ON_ALL_DATABASES = {
    "test_verified_coins.py",
    "test_bundles.py",
    "test_engine.py",
    "test_evidence.py",
    "test_engine_crash.py",
    "test_bucketing.py",
    "test_log_segments.py",
    "test_pardon.py",
    "test_quarantine.py",
    "test_recount.py",
    "test_release.py",
    "test_restored_folder.py",
    "test_retention.py",
    "test_rollups.py",
    "test_store_tallies.py",
    "test_upgrade.py",
}
"""Tests of the store and the engine, which run on both databases. The rest runs on SQLite only, and so do these:"""
ON_SQLITE_ALONE = {
    "test_the_disk_is_bounded_and_room_is_given_back",  # PostgreSQL keeps the room for what comes
    # thousands of small batches, whose SQL others run too
    "test_a_hoard_cannot_own_a_bucket",
    "test_a_long_backlog_that_trickles_in_is_bucketed_to_its_end",
    "test_nor_where_the_quota_has_less_than_a_report_for_a_bucket",
    "test_punctual_reports_are_bucketed_when_they_come",
    "test_an_insider_who_counts_on_pardons",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    name, path = metafunc.definition.originalname, metafunc.definition.path
    both = path.name in ON_ALL_DATABASES and name not in ON_SQLITE_ALONE
    if both and "make_database" in metafunc.fixturenames:
        metafunc.parametrize("make_database", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server for all tests of this process. Tests of power cuts have their own."""
    with PostgresServer(fsync="off", full_page_writes="off") as server:
        yield server


@pytest.fixture
def new_schema(postgres_server: PostgresServer) -> Iterator[Callable[[], PostgresSchema]]:
    """Return a maker of schemas that nobody else uses."""
    made: list[PostgresSchema] = []

    def make() -> PostgresSchema:
        made.append(PostgresSchema(postgres_server.url, f"test_{secrets.token_hex(8)}"))
        return made[-1]

    yield make
    for schema in made:
        schema.drop()


@pytest.fixture
def make_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Database]:
    """Return a maker of databases: files, or schemas where a test is to run on both."""
    if getattr(request, "param", "sqlite") == "postgres":
        make: Callable[[], Database] = request.getfixturevalue("new_schema")
        return make
    names = itertools.count()
    return lambda: SqliteFile(tmp_path / f"lab{next(names)}.sqlite")


@pytest.fixture
def make_lab(make_database: Callable[[], Database], rng: np.random.Generator) -> Iterator[MakeLab]:
    """Return a maker of labs: profiles, number of devices."""
    labs: list[Lab] = []

    def make(*profiles: Profile, devices: int = 4) -> Lab:
        lab = Lab(make_database(), profiles or (harmony_profile(),), devices, rng)
        labs.append(lab)
        return lab

    yield make
    for lab in labs:
        lab.store.close()


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """A lab with four devices that report four attributes."""
    return make_lab()


@pytest.fixture
def profiles() -> Makers:
    """Makers of Harmony and kRR profiles."""
    return harmony_profile, krr_profile
