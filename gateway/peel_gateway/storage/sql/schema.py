# SPDX-License-Identifier: MIT
"""The tables of all databases, and the numbered steps that upgrade them.

PostgreSQL adds a partition column, which comes first in every key.
To change the schema after a release, change `_SCHEMA` and append a `Step` that makes the same change to an existing database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.store import StoreTooNew, StoreTooOld

__all__ = [
    "META",
    "REGISTRY",
    "STEPS",
    "TABLES",
    "Step",
    "Upgraded",
    "Words",
    "check_version",
    "fill_in",
    "run_steps",
    "schema_version",
    "steps_from",
    "tables",
]


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words in which the databases differ."""

    int: str
    """64 bits."""
    blob: str
    partition: str
    """Definition of the partition column, or empty."""
    by_partition: str
    """The partition column at the start of a key, or empty."""
    clustered: str
    """Suffix of a table whose rows are stored in key order."""
    identity: str
    """Type of an id that never repeats."""
    identity_key: str
    """The primary key of a table with such an id, or empty."""


def tables(words: Words) -> str:
    """Return the statements that create all tables of the current version."""
    return fill_in(_SCHEMA, words)


def fill_in(statements: str, words: Words) -> str:
    """Return statements for one database."""
    return statements.format(**asdict(words))


_SCHEMA = """
-- The log: every report with a valid seal and a fresh number, and every missing number, in the order in which they were judged
-- ("arrival", from 1), in segments packed by `storage.records`. The recount computes the tables below from it.
CREATE TABLE log ({partition}
    last   {int} NOT NULL,    -- arrival of the segment's last event
    events {int} NOT NULL,
    sealed {int} NOT NULL,    -- 1: many batches, compressed; 0: one batch, as it came
    data   {blob} NOT NULL,
    PRIMARY KEY ({by_partition}last)
);

-- Pruned reports, summed over time: accepted ones per attribute or category, all others under idx -1. forfeited = 1: a pardon left them
-- withdrawn.
CREATE TABLE pruned ({partition}
    device    {int} NOT NULL,
    profile   {int} NOT NULL,
    verdict   {int} NOT NULL,
    idx       {int} NOT NULL,
    forfeited {int} NOT NULL,
    plus      {int} NOT NULL,
    minus     {int} NOT NULL,
    PRIMARY KEY ({by_partition}device, profile, verdict, idx, forfeited)
){clustered};

-- The state of each device ever heard; `model.tables.DeviceTable` explains the columns.
CREATE TABLE device ({partition}
    device         {int} NOT NULL,
    first_number   {int} NOT NULL,
    first_tick     {int} NOT NULL,
    low_water      {int} NOT NULL,
    holes          {blob} NOT NULL,
    forgone        {int} NOT NULL,
    sealed         {int} NOT NULL,
    cause          {int} NOT NULL,
    cause_time     {int} NOT NULL,
    withdrawn      {int} NOT NULL,
    first_received {int} NOT NULL,
    quota          {int} NOT NULL,
    period         {int} NOT NULL,
    bucketed_down_to {int} NOT NULL,
    pardoned       {int} NOT NULL,
    forfeited      {int} NOT NULL,
    PRIMARY KEY ({by_partition}device)
);
-- Few devices are exposed, and only exposed ones can be withdrawn: counting them must not scan the table.
CREATE INDEX device_exposed ON device (device) WHERE cause != 0;
-- The columns that nearly every report changes, in their own table so that a batch writes little.
CREATE TABLE progress ({partition}
    device        {int} NOT NULL,
    last_number   {int} NOT NULL,
    settled       {int} NOT NULL,
    last_received {int} NOT NULL,
    newest_bucket {int} NOT NULL,
    bucket_lowest {int} NOT NULL,
    bucket_highest {int} NOT NULL,
    arrival       {int} NOT NULL,
    accepted      {int} NOT NULL,
    held          {int} NOT NULL,
    PRIMARY KEY ({by_partition}device)
);

-- Reports that were not accepted, per device and verdict, pruned ones included: listing devices must not read the log. Reports that are
-- held now are counted in `progress` alone.
CREATE TABLE refused ({partition}
    device  {int} NOT NULL,
    verdict {int} NOT NULL,
    reports {int} NOT NULL,
    PRIMARY KEY ({by_partition}device, verdict)
){clustered};

-- Checkpoints of the statistical tests: the state of a device and profile after the event `arrival`, packed (`screening/device_tests.py`),
-- with a checksum. Later events are in the log.
CREATE TABLE test_state ({partition}
    device  {int} NOT NULL,
    profile {int} NOT NULL,
    arrival {int} NOT NULL,
    state   {blob} NOT NULL,
    PRIMARY KEY ({by_partition}device, profile)
);
-- The test states at the beginning of the log, for devices with pruned events.
CREATE TABLE test_state_base ({partition}
    device  {int} NOT NULL,
    profile {int} NOT NULL,
    arrival {int} NOT NULL,
    state   {blob} NOT NULL,
    PRIMARY KEY ({by_partition}device, profile)
);

-- The sums over all devices that estimates are computed from, by the same units of time as in `rollup`; `bucket` is a unit's start.
CREATE TABLE tally ({partition}
    level           {int} NOT NULL,
    profile         {int} NOT NULL,
    bucket          {int} NOT NULL,
    idx             {int} NOT NULL,
    plus            {int} NOT NULL,
    minus           {int} NOT NULL,
    withdrawn_plus  {int} NOT NULL,
    withdrawn_minus {int} NOT NULL,
    PRIMARY KEY ({by_partition}level, profile, bucket, idx)
){clustered};

-- Roll-ups: accepted reports summed per device, attribute or category, and unit of time, in pieces packed by `storage.sql.rollups`. A piece
-- has the rows of one profile and level (seconds of a unit; 0: without a time), of units `first` to `last` and of devices `low` to `high`.
CREATE TABLE rollup ({partition}
    id      {identity},
    profile {int} NOT NULL,
    level   {int} NOT NULL,
    first   {int} NOT NULL,
    last    {int} NOT NULL,
    low     {int} NOT NULL,
    high    {int} NOT NULL,
    entries {int} NOT NULL,
    data    {blob} NOT NULL{identity_key}
);
CREATE INDEX rollup_span ON rollup ({by_partition}level, first, last, profile);

-- The lowest and highest accepted report number per bucket and device, as far back as late reports are put into buckets. A device's newest
-- bucket is in `progress`. The bucket comes first in the key, so rows of one time are adjacent.
CREATE TABLE bucket_span ({partition}
    bucket  {int} NOT NULL,
    device  {int} NOT NULL,
    lowest  {int} NOT NULL,
    highest {int} NOT NULL,
    PRIMARY KEY ({by_partition}bucket, device)
){clustered};

-- Verified coins (SPEC section 13): the state of each device, `model.coins.CoinTable` explains the columns. `batches` has a checksum.
CREATE TABLE coin ({partition}
    device     {int} NOT NULL,
    committed  {int} NOT NULL,
    approved   {int} NOT NULL,
    challenges {int} NOT NULL,
    opened     {int} NOT NULL,
    asked      {int} NOT NULL,
    due        {int} NOT NULL,
    challenge  {blob} NOT NULL,
    batches    {blob} NOT NULL,
    PRIMARY KEY ({by_partition}device)
);
CREATE INDEX coin_due ON coin ({by_partition}device) WHERE due > 0;
CREATE INDEX coin_asked ON coin (asked) WHERE asked > 0;
-- The roots of committed batches, 16 bytes per number.
CREATE TABLE coin_batch ({partition}
    device {int} NOT NULL,
    first  {int} NOT NULL,
    roots  {blob} NOT NULL,
    PRIMARY KEY ({by_partition}device, first)
){clustered};
-- Reports whose coins are not opened yet: no estimate counts them. Until its time bucket has ended (`due`), a report is in the piece that
-- its batch has appended here, as a `HELD` record of `model.coins`.
CREATE TABLE held ({partition}
    due     {int} NOT NULL,
    arrival {int} NOT NULL,
    data    {blob} NOT NULL,
    PRIMARY KEY ({by_partition}due, arrival)
){clustered};
-- From then on it is a `WAITING` record of its device, by number.
CREATE TABLE waiting ({partition}
    device {int} NOT NULL,
    data   {blob} NOT NULL,
    PRIMARY KEY ({by_partition}device)
);

-- Exposures and quarantine: bounded, the oldest leave first.
CREATE TABLE exposure ({partition}
    id       {identity},
    verdict  {int} NOT NULL,
    blamed   {int} NOT NULL,
    device   {int} NOT NULL,
    number   {int} NOT NULL,
    profile  {int} NOT NULL,
    received {int} NOT NULL,
    topic    TEXT NOT NULL,
    raw      {blob} NOT NULL,
    digest   {blob},
    evidence TEXT NOT NULL,
    UNIQUE ({by_partition}digest){identity_key}
);
CREATE INDEX exposure_blamed ON exposure (blamed, id);
CREATE INDEX exposure_device ON exposure (device, id);
-- For a device's own exposures only: forged reports can name a device any number of times.
CREATE INDEX exposure_blame ON exposure (device, id) WHERE blamed = 1;

-- Pardons, and releases (cause 0), see `model.exposure.AuditEntry`. Rows are never deleted.
CREATE TABLE audit ({partition}
    id            {identity},
    device        {int} NOT NULL,
    reason        TEXT NOT NULL,
    who           TEXT NOT NULL,
    time          {int} NOT NULL,
    arrival       {int} NOT NULL,
    cause         {int} NOT NULL,
    restored      {int} NOT NULL,
    reports       {int} NOT NULL,
    last_exposure {int} NOT NULL{identity_key}
);
CREATE INDEX audit_device ON audit (device, id);

-- Totals by kind: reports by verdict; replayed reports by their former verdict; gaps; withdrawn reports; pieces that left the quarantine by
-- verdict; pieces and bytes that it holds by class.
CREATE TABLE counter ({partition}
    kind  TEXT NOT NULL,
    key   {int} NOT NULL,
    value {int} NOT NULL,
    PRIMARY KEY ({by_partition}kind, key)
){clustered};

-- Single values: the number of transactions; the log's last event, the last sealed one, the last one in all checkpoints, the last in the
-- roll-ups; how far their larger units are built, and where units shorter than a day begin; the newest bucket with pruned reports, and the
-- first bucket in `bucket_span`; the size of time buckets; the gateway's time; the era of verified coins (its begin and its random half)
-- and the mark that shows whether the database was restored; in the first partition,
-- the newest state of the fleet's registry that a gateway has used.
CREATE TABLE meta ({partition}
    key   TEXT NOT NULL,
    value {int} NOT NULL,
    PRIMARY KEY ({by_partition}key)
){clustered};
"""

TABLES = (
    "log", "pruned", "device", "progress", "refused", "test_state", "test_state_base", "tally", "rollup", "bucket_span",
    "coin", "coin_batch", "held", "waiting", "exposure", "audit", "counter", "meta",
)  # fmt: skip

REGISTRY = ("registry_revision", "registry_mark", "registry_last_id")
"""The keys of `meta` that hold a `model.tables.DirectoryVersion`, in the first partition."""

META = (
    "generation", "arrival", "sealed", "checkpointed", "summed", "built", "fine_from", "pruned_bucket", "spans_from",
    "tick", "wall", "seen", "boot", "steady", "behind", "stepped", "era", "era_salt", "mark", *REGISTRY,
)  # fmt: skip
"""The keys of `meta` that start at 0."""


@dataclass(frozen=True)
class Step:
    """One change of the schema."""

    summary: str
    """One line for the operator."""
    statements: str = ""
    """SQL with the placeholders of `Words`."""
    rewrite: Callable[[Connection], None] | None = None
    """Called after the statements for each partition, for changes that SQL cannot express."""


STEPS: tuple[Step, ...] = ()
"""In order; the first leads from version 1 to 2. Never change a released step."""


@dataclass(frozen=True)
class Upgraded:
    """The result of an upgrade."""

    place: str
    before: int
    steps: Sequence[Step]
    backup: Path | None
    """A copy of the former database, where the upgrade made one."""

    @property
    def after(self) -> int:
        """The database's new version."""
        return self.before + len(self.steps)


def schema_version() -> int:
    """Return the schema version of this gateway."""
    return 1 + len(STEPS)


def check_version(version: int, place: object) -> None:
    """Raise unless a database has this gateway's version."""
    if version < schema_version():
        raise StoreTooOld(
            f"{place}: has schema version {version}, this gateway needs {schema_version()}; run `peel gateway upgrade`"
        )
    steps_from(version, place)


def steps_from(version: int, place: object) -> Sequence[Step]:
    """Return the steps that a database of this version lacks; raise `StoreTooNew` for a newer one."""
    if version > schema_version():
        raise StoreTooNew(
            f"{place}: has schema version {version}, this gateway knows up to {schema_version()}; upgrade the gateway"
        )
    return STEPS[version - 1 :]


def run_steps(
    steps: Sequence[Step], words: Words, execute: Callable[[str], object], partitions: Sequence[Connection]
) -> None:
    """Run steps within the caller's transaction; `execute` takes a script."""
    for step in steps:
        if step.statements:
            execute(fill_in(step.statements, words))
        if step.rewrite is not None:
            for partition in partitions:
                step.rewrite(partition)
