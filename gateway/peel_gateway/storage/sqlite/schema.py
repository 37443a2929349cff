# SPDX-License-Identifier: MIT
"""The SQLite schema and how older files become newer ones.

`MIGRATIONS[n]` takes a file from version n to n + 1; `PRAGMA user_version` says where a file is. A published migration never changes.
"""

from __future__ import annotations

__all__ = ["APPLICATION_ID", "MIGRATIONS", "VERSION"]

APPLICATION_ID = 0x5045454C
"""`PEEL`: tells our files from other SQLite files."""

_VERSION_1 = """
-- The log: every report whose seal verified and whose number was fresh. Everything below is a function of it.
CREATE TABLE log (
    device   INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    profile  INTEGER NOT NULL,
    received INTEGER NOT NULL,
    verdict  INTEGER NOT NULL,
    idx      INTEGER NOT NULL,
    sign     INTEGER NOT NULL,
    cohort   INTEGER NOT NULL,
    late     INTEGER NOT NULL,
    body     INTEGER NOT NULL,
    PRIMARY KEY (device, number)
) WITHOUT ROWID;

-- Numbers that never came, with the attribute each of them assigns: settled once, part of the log.
CREATE TABLE gap (
    device  INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    profile INTEGER NOT NULL,
    idx     INTEGER NOT NULL,
    PRIMARY KEY (device, number)
) WITHOUT ROWID;

-- Sums of log rows and gaps that retention has dropped.
CREATE TABLE pruned (
    device   INTEGER NOT NULL,
    profile  INTEGER NOT NULL,
    bucket   INTEGER NOT NULL,
    idx      INTEGER NOT NULL,
    verdict  INTEGER NOT NULL,
    plus     INTEGER NOT NULL,
    minus    INTEGER NOT NULL,
    agree    INTEGER NOT NULL,
    disagree INTEGER NOT NULL,
    fresh    INTEGER NOT NULL,
    PRIMARY KEY (device, profile, bucket, idx, verdict)
) WITHOUT ROWID;

CREATE TABLE pruned_gap (
    device  INTEGER NOT NULL,
    profile INTEGER NOT NULL,
    idx     INTEGER NOT NULL,
    gaps    INTEGER NOT NULL,
    PRIMARY KEY (device, profile, idx)
) WITHOUT ROWID;

CREATE TABLE device (
    device         INTEGER PRIMARY KEY,
    first_number   INTEGER NOT NULL,
    first_tick     INTEGER NOT NULL,
    last_number    INTEGER NOT NULL,
    settled        INTEGER NOT NULL,
    low_water      INTEGER NOT NULL,
    sealed         INTEGER NOT NULL,
    cause          INTEGER NOT NULL,
    cause_time     INTEGER NOT NULL,
    withdrawn      INTEGER NOT NULL,
    first_received INTEGER NOT NULL,
    last_received  INTEGER NOT NULL
);

CREATE TABLE evidence (
    device   INTEGER NOT NULL,
    profile  INTEGER NOT NULL,
    idx      INTEGER NOT NULL,
    plus     INTEGER NOT NULL,
    minus    INTEGER NOT NULL,
    agree    INTEGER NOT NULL,
    disagree INTEGER NOT NULL,
    fresh    INTEGER NOT NULL,
    gaps     INTEGER NOT NULL,
    PRIMARY KEY (device, profile, idx)
) WITHOUT ROWID;

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

-- Totals: reports by verdict, pieces that left the quarantine by verdict, and what the quarantine holds by class.
CREATE TABLE counter (
    kind  TEXT NOT NULL,
    key   INTEGER NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
) WITHOUT ROWID;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO meta VALUES ('generation', 0), ('tick', 0), ('wall', 0);
"""

_VERSION_2 = """
-- Logged reports per device and verdict, pruned ones included: a list of devices must not read the whole log.
CREATE TABLE device_report (
    device  INTEGER NOT NULL,
    verdict INTEGER NOT NULL,
    reports INTEGER NOT NULL,
    PRIMARY KEY (device, verdict)
) WITHOUT ROWID;

INSERT INTO device_report
SELECT device, verdict, SUM(reports) FROM (
    SELECT device, verdict, COUNT(*) AS reports FROM log GROUP BY device, verdict
    UNION ALL
    SELECT device, verdict, plus + minus FROM pruned
) GROUP BY device, verdict;
"""

_VERSION_3 = """
-- The gateway's own time, see `clock.Moment`.
INSERT INTO meta SELECT 'seen', value FROM meta WHERE key = 'wall';
INSERT INTO meta VALUES ('boot', 0), ('steady', 0), ('behind', 0), ('stepped', 0);
"""

_VERSION_4 = """
-- The quota that a device's token bucket is filled by; 0 where it is not known yet.
ALTER TABLE device ADD COLUMN quota INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN period INTEGER NOT NULL DEFAULT 0;
"""

_VERSION_5 = """
-- A device's own exposures: which was the first, and how many there are. Others can name it as often as they like.
CREATE INDEX exposure_blame ON exposure (device, id) WHERE blamed = 1;
"""

_VERSION_6 = """
-- Each report is filed in a time bucket in which its device has room, and judged in an order: both are decided once, and logged.
ALTER TABLE log ADD COLUMN bucket INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log ADD COLUMN arrival INTEGER NOT NULL DEFAULT 0;
ALTER TABLE gap ADD COLUMN arrival INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN filed_bucket INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN filed_reports INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN filed_down_to INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN arrivals INTEGER NOT NULL DEFAULT 0;

UPDATE log SET bucket = received / 1000 / size * size FROM (SELECT value AS size FROM meta WHERE key = 'bucket_seconds');

-- Older files did not keep the order: that of the numbers, a gap before the report that came late.
CREATE TEMP TABLE ordered AS
SELECT device, number, missing, ROW_NUMBER() OVER (PARTITION BY device ORDER BY number, missing DESC) AS arrival FROM (
    SELECT device, number, 0 AS missing FROM log UNION ALL SELECT device, number, 1 FROM gap
);
CREATE INDEX temp.ordered_key ON ordered (device, number, missing);
UPDATE log SET arrival = ordered.arrival FROM temp.ordered AS ordered
WHERE ordered.device = log.device AND ordered.number = log.number AND ordered.missing = 0;
UPDATE gap SET arrival = ordered.arrival FROM temp.ordered AS ordered
WHERE ordered.device = gap.device AND ordered.number = gap.number AND ordered.missing = 1;
UPDATE device SET arrivals = COALESCE((SELECT MAX(arrival) FROM temp.ordered WHERE ordered.device = device.device), 0);
DROP TABLE temp.ordered;

-- Reports that count, per device and bucket: how much room is left.
CREATE TABLE filed (
    device  INTEGER NOT NULL,
    bucket  INTEGER NOT NULL,
    reports INTEGER NOT NULL,
    PRIMARY KEY (device, bucket)
) WITHOUT ROWID;
INSERT INTO filed
SELECT device, bucket, SUM(reports) FROM (
    SELECT device, bucket, 1 AS reports FROM log WHERE verdict = 0
    UNION ALL
    SELECT device, bucket, plus + minus FROM pruned WHERE verdict = 0
) GROUP BY device, bucket;
UPDATE device SET filed_bucket = COALESCE((SELECT MAX(bucket) FROM filed WHERE filed.device = device.device), 0);
UPDATE device SET filed_reports = COALESCE(
    (SELECT reports FROM filed WHERE filed.device = device.device AND bucket = filed_bucket), 0);
"""

_VERSION_7 = """
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

-- Counts that the order did not matter for: bets on them are made from the log now.
INSERT INTO counter SELECT 'gap', 0, COALESCE(SUM(gaps), 0) FROM evidence;
DROP TABLE evidence;
ALTER TABLE pruned DROP COLUMN agree;
ALTER TABLE pruned DROP COLUMN disagree;
ALTER TABLE pruned DROP COLUMN fresh;
"""

_VERSION_8 = """
-- What operators did, see `audit.AuditEntry`; never deleted from.
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

-- Pardoned devices are judged from this event on; what they counted up to that one stays withdrawn. Pruned rows keep no event.
ALTER TABLE device ADD COLUMN pardoned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device ADD COLUMN forfeited INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pruned RENAME TO pruned_before;
CREATE TABLE pruned (
    device    INTEGER NOT NULL,
    profile   INTEGER NOT NULL,
    bucket    INTEGER NOT NULL,
    idx       INTEGER NOT NULL,
    verdict   INTEGER NOT NULL,
    forfeited INTEGER NOT NULL,
    plus      INTEGER NOT NULL,
    minus     INTEGER NOT NULL,
    PRIMARY KEY (device, profile, bucket, idx, verdict, forfeited)
) WITHOUT ROWID;
INSERT INTO pruned SELECT device, profile, bucket, idx, verdict, 0, plus, minus FROM pruned_before;
DROP TABLE pruned_before;
"""

MIGRATIONS: tuple[str, ...] = (
    _VERSION_1,
    _VERSION_2,
    _VERSION_3,
    _VERSION_4,
    _VERSION_5,
    _VERSION_6,
    _VERSION_7,
    _VERSION_8,
)
VERSION = len(MIGRATIONS)
