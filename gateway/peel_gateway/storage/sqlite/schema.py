# SPDX-License-Identifier: MIT
"""The SQLite schema. `PRAGMA user_version` says which version a file has."""

from __future__ import annotations

__all__ = ["APPLICATION_ID", "SCHEMA", "VERSION"]

APPLICATION_ID = 0x5045454C
"""`PEEL`: tells our files from other SQLite files."""

VERSION = 1

SCHEMA = """
-- The log: every report whose seal verified and whose number was fresh, and every number that never came, in the order in which they were
-- judged ("arrival", from 1). Segments of events as `storage.records` packs them. Everything below is a function of it.
CREATE TABLE log (
    last   INTEGER PRIMARY KEY,      -- arrival of the segment's last event
    events INTEGER NOT NULL,
    sealed INTEGER NOT NULL,         -- 1: many batches, compressed; 0: one batch, as it came
    data   BLOB NOT NULL
);

-- What retention has dropped from the log, summed over time: accepted reports per attribute or category, all others under -1; apart, what a
-- pardon has left withdrawn for ever.
CREATE TABLE past (
    device    INTEGER NOT NULL,
    profile   INTEGER NOT NULL,
    verdict   INTEGER NOT NULL,
    idx       INTEGER NOT NULL,
    forfeited INTEGER NOT NULL,
    plus      INTEGER NOT NULL,
    minus     INTEGER NOT NULL,
    PRIMARY KEY (device, profile, verdict, idx, forfeited)
) WITHOUT ROWID;

-- What is known of each device ever heard; `model.tables.DeviceTable` explains the columns.
CREATE TABLE device (
    device         INTEGER PRIMARY KEY,
    first_number   INTEGER NOT NULL,
    first_tick     INTEGER NOT NULL,
    low_water      INTEGER NOT NULL,
    holes          BLOB NOT NULL,
    forgone        INTEGER NOT NULL,
    sealed         INTEGER NOT NULL,
    cause          INTEGER NOT NULL,
    cause_time     INTEGER NOT NULL,
    withdrawn      INTEGER NOT NULL,
    first_received INTEGER NOT NULL,
    quota          INTEGER NOT NULL,
    period         INTEGER NOT NULL,
    filed_down_to  INTEGER NOT NULL,
    pardoned       INTEGER NOT NULL,
    forfeited      INTEGER NOT NULL
);
-- What nearly every report changes of it: apart, so that a batch writes little.
CREATE TABLE progress (
    device        INTEGER PRIMARY KEY,
    last_number   INTEGER NOT NULL,
    settled       INTEGER NOT NULL,
    last_received INTEGER NOT NULL,
    filed_bucket  INTEGER NOT NULL,
    filed_reports INTEGER NOT NULL,
    arrival       INTEGER NOT NULL,
    accepted      INTEGER NOT NULL
);

-- Logged reports that were not accepted, per device and verdict, over its whole life: a list of devices must not read the whole log.
CREATE TABLE refused (
    device  INTEGER NOT NULL,
    verdict INTEGER NOT NULL,
    reports INTEGER NOT NULL,
    PRIMARY KEY (device, verdict)
) WITHOUT ROWID;

-- The statistics layer bets in the order of events. A state per device and profile, as it was after one event; the rest is in the log.
CREATE TABLE conduct (
    device  INTEGER NOT NULL,
    profile INTEGER NOT NULL,
    arrival INTEGER NOT NULL,
    state   BLOB NOT NULL,
    PRIMARY KEY (device, profile)
);
-- The same where the log begins, for devices that retention has taken something from.
CREATE TABLE conduct_base (
    device  INTEGER NOT NULL,
    profile INTEGER NOT NULL,
    arrival INTEGER NOT NULL,
    state   BLOB NOT NULL,
    PRIMARY KEY (device, profile)
);

-- What estimates are made of.
CREATE TABLE tally (
    profile         INTEGER NOT NULL,
    bucket          INTEGER NOT NULL,
    idx             INTEGER NOT NULL,
    plus            INTEGER NOT NULL,
    minus           INTEGER NOT NULL,
    withdrawn_plus  INTEGER NOT NULL,
    withdrawn_minus INTEGER NOT NULL,
    PRIMARY KEY (profile, bucket, idx)
) WITHOUT ROWID;

-- Reports that count, per bucket and device, as far back as backlogs are filed: how much room is left. What a time brings stands together.
-- What is in a device's newest bucket is in `progress`.
CREATE TABLE filed (
    bucket  INTEGER NOT NULL,
    device  INTEGER NOT NULL,
    reports INTEGER NOT NULL,
    PRIMARY KEY (bucket, device)
) WITHOUT ROWID;

-- Exposures and quarantine: bounded, oldest first out.
CREATE TABLE exposure (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    verdict  INTEGER NOT NULL,
    blamed   INTEGER NOT NULL,
    device   INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    profile  INTEGER NOT NULL,
    received INTEGER NOT NULL,
    topic    TEXT NOT NULL,
    raw      BLOB NOT NULL,
    digest   BLOB UNIQUE,
    evidence TEXT NOT NULL
);
CREATE INDEX exposure_blamed ON exposure (blamed, id);
CREATE INDEX exposure_device ON exposure (device, id);
-- A device's own exposures: which was the first, and how many there are. Others can name it as often as they like.
CREATE INDEX exposure_blame ON exposure (device, id) WHERE blamed = 1;

-- What operators did, see `model.audit.AuditEntry`; never deleted from.
CREATE TABLE audit (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    device        INTEGER NOT NULL,
    reason        TEXT NOT NULL,
    who           TEXT NOT NULL,
    time          INTEGER NOT NULL,
    arrival       INTEGER NOT NULL,
    cause         INTEGER NOT NULL,
    restored      INTEGER NOT NULL,
    reports       INTEGER NOT NULL,
    last_exposure INTEGER NOT NULL
);
CREATE INDEX audit_device ON audit (device, id);

-- Totals: reports by verdict, and those screened again by the verdict before; gaps; what left the estimates; pieces that left the
-- quarantine by verdict, and what it holds by class.
CREATE TABLE counter (
    kind  TEXT NOT NULL,
    key   INTEGER NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

-- Single values: transactions so far; the log's last event, up to where it is sealed, and up to where all checkpoints know it; the newest
-- bucket that retention has taken something from, and where `filed` begins; the size of time buckets; the gateway's own time.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO meta VALUES
    ('generation', 0), ('arrival', 0), ('sealed', 0), ('checkpointed', 0), ('pruned_bucket', 0), ('filed_from', 0),
    ('tick', 0), ('wall', 0), ('seen', 0), ('boot', 0), ('steady', 0), ('behind', 0), ('stepped', 0);
"""
