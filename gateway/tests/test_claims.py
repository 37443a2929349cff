# SPDX-License-Identifier: MIT
"""Status messages of devices are parsed as hostile input, stored within bounds, and shown as claims only."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peel_core.topics import device_topic
from peel_gateway.fleet.claims import MOST_BYTES, ClaimError, Claims, ClaimsFile, StatusOutcome, load_claims, read_claim
from peel_gateway.model.standing import STANDINGS, Signs, Standing, expected_interval, last_heard, patience

BIRTH = {
    "state": "online",
    "firmware": "0.3.0",
    "core": "0.3.0",
    "board": "pico_w",
    "interval_ms": 900_000,
    "dropped": 1,
    "lost": 0,
    "skipped": 2,
    "no_reading": 3,
    "throttled": 0,
    "left": None,
    "entropy": 384,
    "refused": ["bundle seed"],
    "faults": 3,
}


def receive(
    claims: Claims, device: int, *, retained: bool = False, now: float = 1000.0, **said: object
) -> StatusOutcome:
    payload = json.dumps(said or BIRTH).encode()
    return claims.hear(device_topic("lab", device, "status"), payload, retained=retained, now=now)


@pytest.fixture
def claims() -> Claims:
    return Claims("lab", {1, 2, 0x2A}.__contains__)


def test_a_birth_is_taken_and_a_will_keeps_what_it_does_not_say(claims: Claims) -> None:
    assert receive(claims, 1) is StatusOutcome.TAKEN
    assert receive(claims, 1, now=2000.0, state="offline") is StatusOutcome.TAKEN
    claim = claims.get(1)
    assert claim is not None
    assert (claim.state, claim.heard) == ("offline", 2000.0)
    assert (claim.firmware, claim.skipped, claim.refused) == ("0.3.0", 2, ("bundle seed",))


def test_what_the_broker_had_kept_says_nothing_about_when(claims: Claims) -> None:
    receive(claims, 1, retained=True)
    assert (kept := claims.get(1)) is not None
    assert kept.heard is None
    receive(claims, 1, now=5.0)
    receive(claims, 1, retained=True, now=9.0)
    assert claims.get(1) == replace(kept, heard=5.0)


def test_asleep_is_said_anew_each_time(claims: Claims) -> None:
    receive(claims, 1, state="offline", asleep=True)
    receive(claims, 1, state="online")
    assert (claim := claims.get(1)) is not None
    assert not claim.asleep


HOSTILE = [
    b"",
    b"\xff\xfe",
    b"null",
    b"[]",
    b"{}",
    b'{"state": "online"',
    b'{"state": "exposed"}',
    b'{"state": ["online"]}',
    b'{"state": "online", "left": -1}',
    b'{"state": "online", "left": 1e300}',
    b'{"state": "online", "left": NaN}',
    b'{"state": "online", "left": Infinity}',
    b'{"state": "online", "left": true}',
    b'{"state": "online", "skipped": "many"}',
    b'{"state": "online", "skipped": 1' + b"0" * 1000 + b"}",
    b'{"state": "online", "firmware": "\\u001b[2J"}',
    b'{"state": "online", "firmware": "<script>"}',
    b'{"state": "online", "firmware": "' + b"9" * 33 + b'"}',
    b'{"state": "online", "board": ""}',
    b'{"state": "online", "refused": "trng"}',
    b'{"state": "online", "refused": [1]}',
    json.dumps({"state": "online", "refused": ["x"] * 17}).encode(),
    b'{"state": "online", "asleep": 1}',
    b"[" * MOST_BYTES,
    b'{"state":' * 200,
    b'{"state": "online", "more": "' + b"x" * MOST_BYTES + b'"}',
]


@pytest.mark.parametrize("payload", HOSTILE, ids=[payload[:40].decode(errors="replace") for payload in HOSTILE])
def test_hostile_statuses_are_refused_whole(claims: Claims, payload: bytes) -> None:
    receive(claims, 1)
    before = claims.get(1)
    outcome = claims.hear(device_topic("lab", 1, "status"), payload, retained=False, now=1e9)
    assert outcome is StatusOutcome.MALFORMED
    assert claims.get(1) == before


def test_unknown_keys_are_passed_over() -> None:
    deep = b"[" * 900 + b"]" * 900
    payload = b'{"state": "online", "exposed": false, "__class__": "x", "more": ' + deep + b"}"
    assert read_claim(payload) == {"state": "online", "asleep": False}


@pytest.mark.slow
@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())
)
def test_no_bytes_do_more_than_be_refused(payload: bytes) -> None:
    try:
        assert read_claim(payload)["state"] in ("online", "offline", "stopped")
    except ClaimError as error:
        assert str(error)


@pytest.mark.parametrize(
    "topic",
    [
        "peel/v1/lab/00/00000001/status",  # another device's lane
        "peel/v1/lab/1/00000001/status",
        "peel/v1/lab/01/1/status",
        "peel/v1/lab/01/0000000A/status",
        "peel/v1/other/01/00000001/status",
        "peel/v1/lab/gateway/main/status",
        "peel/v1/lab/01/00000001/report",
        "status",
        "",
    ],
)
def test_only_the_own_topic_of_a_device_counts(claims: Claims, topic: str) -> None:
    assert claims.hear(topic, json.dumps(BIRTH).encode(), retained=False, now=0.0) is StatusOutcome.MALFORMED
    assert claims.copy() == {}


def test_a_flood_of_devices_that_do_not_exist_takes_no_memory(claims: Claims) -> None:
    assert {receive(claims, device) for device in range(1000, 3000)} == {StatusOutcome.UNREGISTERED}
    assert claims.copy() == {}


def test_the_file_brings_everything_back_and_forgets_who_is_gone(tmp_path: Path) -> None:
    registered = {1, 2}
    claims = Claims("lab", registered.__contains__)
    receive(claims, 1)
    receive(claims, 2, retained=True)
    ClaimsFile(tmp_path / "claims.json", claims).write()
    assert load_claims(tmp_path / "claims.json") == claims.copy()
    registered.remove(2)
    ClaimsFile(tmp_path / "claims.json", claims).write()
    assert list(load_claims(tmp_path / "claims.json")) == [1]
    assert (tmp_path / "claims.json").stat().st_mode & 0o077 == 0


def test_the_file_is_written_when_something_changed_and_seldom(tmp_path: Path, claims: Claims) -> None:
    path = tmp_path / "claims.json"
    file = ClaimsFile(path, claims)
    file.tick(0.0)
    assert not path.exists(), "nothing was said"
    receive(claims, 1)
    file.tick(1.0)
    path.unlink()
    receive(claims, 1)
    file.tick(60.0)
    assert not path.exists(), "a minute has not gone by"
    file.tick(61.0)
    assert path.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"claims": {"1": {}}}', '{"claims": {"x": {"state": "online"}}}'])
def test_a_damaged_file_is_no_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "claims.json").write_text(text)
    assert load_claims(tmp_path / "claims.json") == {}


UNKNOWN = np.array([np.nan])
YES, NO = np.array([True]), np.array([False])
ZERO = np.array([0.0])
WELL = Signs(
    revoked=NO,
    exposed=NO,
    left=UNKNOWN,
    claimed_left=UNKNOWN,
    stopped=NO,
    failing=NO,
    heard=np.array([1000.0]),
    interval=np.array([20.0]),
    patience=np.array([60.0]),
)


@pytest.mark.parametrize(
    ("signs", "now", "standing"),
    [
        (WELL, 1060.0, Standing.ACTIVE),
        (WELL, 1061.0, Standing.SILENT),
        (WELL, 940.0, Standing.ACTIVE),
        (WELL, 939.0, Standing.SILENT),
        (replace(WELL, heard=UNKNOWN), 1e9, Standing.NEW),
        (replace(WELL, failing=YES), 1060.0, Standing.FAILING),
        (replace(WELL, failing=YES, heard=UNKNOWN), 1e9, Standing.FAILING),
        (replace(WELL, failing=YES), 1061.0, Standing.SILENT),
        (replace(WELL, failing=YES, stopped=YES), 1060.0, Standing.STOPPED),
        (replace(WELL, stopped=YES), 1e9, Standing.STOPPED),
        (replace(WELL, claimed_left=ZERO), 1e9, Standing.EXHAUSTED),
        (replace(WELL, left=ZERO, stopped=YES), 1060.0, Standing.EXHAUSTED),
        (replace(WELL, left=ZERO, exposed=YES), 1060.0, Standing.EXPOSED),
        (replace(WELL, exposed=YES, revoked=YES), 1060.0, Standing.REVOKED),
    ],
)
def test_the_first_state_that_fits(signs: Signs, now: float, standing: Standing) -> None:
    assert [STANDINGS[place] for place in signs.standings(now)] == [standing]


def test_a_time_that_is_yet_to_come_is_no_sign_of_life() -> None:
    """The gateway's clock was years ahead, and has been put right."""
    times = np.array([[np.nan, np.nan], [9e9, np.nan], [9e9, 900.0], [900.0, 1001.0]]).T
    found = last_heard(times, now=1000.0, patience=np.full(4, 60.0))
    assert np.isnan(found[0])
    assert found[1:].tolist() == [9e9, 900.0, 1001.0], "the first of these was heard, though nobody knows when"


def test_patience_follows_the_device_and_its_quota() -> None:
    claimed_ms = np.array([np.nan, 3_600_000, 1])
    intervals = expected_interval(np.full(3, 86400 / 96), claimed_ms)
    assert intervals.tolist() == [900, 3600, 900], "a device cannot say that it is quicker than its quota lets it be"
    assert patience(np.array([900, 0.001]), least=300).tolist() == [3 * 900, 300]
