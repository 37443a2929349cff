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
    """What databases have different words for."""

    int: str
    """64 bits."""
    blob: str
    partition: str
    """The partition's column."""
    by_partition: str
    """The partition at the beginning of a key."""
    clustered: str
    """After a table whose rows are to stand in the order of their keys."""
    identity: str
    """A column that numbers rows as they come, for ever."""
    identity_key: str
    """The key of a table with such a column."""


def tables(words: Words) -> str:
    """Return the statements that make all tables of the current version."""
    return fill_in(_SCHEMA, words)


def fill_in(statements: str, words: Words) -> str:
    """Return statements in the words of one database."""
    return statements.format(**asdict(words))


_SCHEMA = """
-- The log: every report whose seal verified and whose number was fresh, and every number that never came, in the order in which they were
-- judged ("arrival", from 1). Segments of events as `storage.records` packs them. Everything below is a function of it.
CREATE TABLE log ({partition}
    last   {int} NOT NULL,    -- arrival of the segment's last event
    events {int} NOT NULL,
    sealed {int} NOT NULL,    -- 1: many batches, compressed; 0: one batch, as it came
    data   {blob} NOT NULL,
    PRIMARY KEY ({by_partition}last)
);

-- What retention has dropped from the log, summed over time: accepted reports per attribute or category, all others under -1; apart, what a
-- pardon has left withdrawn for ever.
CREATE TABLE past ({partition}
    device    {int} NOT NULL,
    profile   {int} NOT NULL,
    verdict   {int} NOT NULL,
    idx       {int} NOT NULL,
    forfeited {int} NOT NULL,
    plus      {int} NOT NULL,
    minus     {int} NOT NULL,
    PRIMARY KEY ({by_partition}device, profile, verdict, idx, forfeited)
){clustered};

-- What is known of each device ever heard; `model.tables.DeviceTable` explains the columns.
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
    filed_down_to  {int} NOT NULL,
    pardoned       {int} NOT NULL,
    forfeited      {int} NOT NULL,
    PRIMARY KEY ({by_partition}device)
);
-- Few are exposed, and only those can be withdrawn: whoever counts them must not look at all.
CREATE INDEX device_exposed ON device (device) WHERE cause != 0;
-- What nearly every report changes of it: apart, so that a batch writes little.
CREATE TABLE progress ({partition}
    device        {int} NOT NULL,
    last_number   {int} NOT NULL,
    settled       {int} NOT NULL,
    last_received {int} NOT NULL,
    filed_bucket  {int} NOT NULL,
    filed_lowest  {int} NOT NULL,
    filed_highest {int} NOT NULL,
    arrival       {int} NOT NULL,
    accepted      {int} NOT NULL,
    PRIMARY KEY ({by_partition}device)
);

-- Logged reports that were not accepted, per device and verdict, over its whole life: a list of devices must not read the whole log.
CREATE TABLE refused ({partition}
    device  {int} NOT NULL,
    verdict {int} NOT NULL,
    reports {int} NOT NULL,
    PRIMARY KEY ({by_partition}device, verdict)
){clustered};

-- The statistics layer bets in the order of events. A state per device and profile, as it was after one event,
-- packed (`screening/packing.py`), with a checksum; the rest is in the log.
CREATE TABLE conduct ({partition}
    device  {int} NOT NULL,
    profile {int} NOT NULL,
    arrival {int} NOT NULL,
    state   {blob} NOT NULL,
    PRIMARY KEY ({by_partition}device, profile)
);
-- The same where the log begins, for devices that retention has taken something from.
CREATE TABLE conduct_base ({partition}
    device  {int} NOT NULL,
    profile {int} NOT NULL,
    arrival {int} NOT NULL,
    state   {blob} NOT NULL,
    PRIMARY KEY ({by_partition}device, profile)
);

-- What estimates are made of.
CREATE TABLE tally ({partition}
    profile         {int} NOT NULL,
    bucket          {int} NOT NULL,
    idx             {int} NOT NULL,
    plus            {int} NOT NULL,
    minus           {int} NOT NULL,
    withdrawn_plus  {int} NOT NULL,
    withdrawn_minus {int} NOT NULL,
    PRIMARY KEY ({by_partition}profile, bucket, idx)
){clustered};

-- The lowest and highest number of the reports that count, per bucket and device, as far back as backlogs are filed. The numbers of a
-- device's newest bucket are in `progress`. Rows of one time are next to each other.
CREATE TABLE filed ({partition}
    bucket  {int} NOT NULL,
    device  {int} NOT NULL,
    lowest  {int} NOT NULL,
    highest {int} NOT NULL,
    PRIMARY KEY ({by_partition}bucket, device)
){clustered};

-- Exposures and quarantine: bounded, oldest first out.
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
-- A device's own exposures: which was the first, and how many there are. Others can name it as often as they like.
CREATE INDEX exposure_blame ON exposure (device, id) WHERE blamed = 1;

-- What operators did, see `model.audit.AuditEntry`; never deleted from.
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

-- Totals: reports by verdict, and those screened again by the verdict before; gaps; what left the estimates; pieces that left the
-- quarantine by verdict, and what it holds by class.
CREATE TABLE counter ({partition}
    kind  TEXT NOT NULL,
    key   {int} NOT NULL,
    value {int} NOT NULL,
    PRIMARY KEY ({by_partition}kind, key)
){clustered};

-- Single values: transactions so far; the log's last event, up to where it is sealed, and up to where all checkpoints know it; the newest
-- bucket that retention has taken something from, and where `filed` begins; the size of time buckets; the gateway's own time;
-- in the first partition, the newest state of the fleet's registry that a gateway has used.
CREATE TABLE meta ({partition}
    key   TEXT NOT NULL,
    value {int} NOT NULL,
    PRIMARY KEY ({by_partition}key)
){clustered};
"""

TABLES = (
    "log", "past", "device", "progress", "refused", "conduct", "conduct_base", "tally", "filed", "exposure", "audit", "counter", "meta",
)  # fmt: skip

REGISTRY = ("registry_revision", "registry_mark", "registry_last_id")
"""The keys of `meta` that hold a `model.registry_state.RegistryState`, in the first partition."""

META = (
    "generation", "arrival", "sealed", "checkpointed", "pruned_bucket", "filed_from",
    "tick", "wall", "seen", "boot", "steady", "behind", "stepped", *REGISTRY,
)  # fmt: skip
"""The keys of `meta` that begin as 0."""


@dataclass(frozen=True)
class Step:
    """One change of the schema."""

    summary: str
    """What changes, in one line, for the operator."""
    statements: str = ""
    """SQL in the words of `schema.Words`."""
    rewrite: Callable[[Connection], None] | None = None
    """Runs after the statements on each partition, for what SQL alone cannot do."""


STEPS: tuple[Step, ...] = ()
"""In order; the first leads from version 1 to version 2. A step that was released never changes."""


@dataclass(frozen=True)
class Upgraded:
    """What an upgrade did."""

    place: str
    before: int
    steps: Sequence[Step]
    backup: Path | None
    """A copy of the former database, where the upgrade made one."""

    @property
    def after(self) -> int:
        """The version that the database has now."""
        return self.before + len(self.steps)


def schema_version() -> int:
    """Return the version that this gateway makes and works with."""
    return 1 + len(STEPS)


def check_version(version: int, place: object) -> None:
    """Refuse a database of another version, and say what to do."""
    if version < schema_version():
        raise StoreTooOld(
            f"{place}: has schema version {version}, this gateway needs {schema_version()}; run `peel gateway upgrade`"
        )
    steps_from(version, place)


def steps_from(version: int, place: object) -> Sequence[Step]:
    """Return the steps that a database of this version lacks; none if it is up to date. Refuse a newer one."""
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
