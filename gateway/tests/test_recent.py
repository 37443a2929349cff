# SPDX-License-Identifier: MIT
"""Published estimates cover a recent window, and the device counts name silent devices."""

from __future__ import annotations

import numpy as np
import pytest
from lab import START, MakeLab
from watched import CLIMATE, DEVICES, STEP, Watched, climate

from peel_gateway.fleet.claims import Claim
from peel_gateway.model.standing import Standing
from peel_gateway.queries.changes import amount
from peel_gateway.queries.estimates import window_name, windows
from peel_gateway.queries.parameters import ChangeQuery, EstimateQuery, ParameterError, QueryError, parse_query
from peel_gateway.queries.views import Views


@pytest.fixture
def watched(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(make_lab(CLIMATE, devices=DEVICES), monkeypatch)


@pytest.mark.slow
def test_what_is_published_follows_the_truth_within_the_window(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(make_lab(climate(4.0), devices=DEVICES), monkeypatch)
    watched.report(20, seconds=6 * 3600)
    watched.report(35, seconds=4 * 3600)
    (ever,) = watched.views.estimates(EstimateQuery(devices=False))
    assert abs((ever["estimates"][0]["value"] or 0) - 26) < 2, "the mean since the beginning lies between"
    (table,) = watched.views.recent(3600)
    (row,) = table["estimates"]
    assert (table["window"], table["window_seconds"]) == ("1h", 3600)
    assert abs((row["value"] or 0) - 35) < 4.5, "five standard deviations"
    assert not row["too_few"]
    assert 12 * DEVICES <= row["n"] <= 13 * DEVICES


def test_a_window_with_too_few_reports_gives_way_to_the_next_longer(watched: Watched) -> None:
    watched.report(20, seconds=3600)
    watched.lab.now += 3 * 3600
    assert watched.views.recent(3600)[0]["window"] == "6h"
    watched.lab.now += 10 * 3600
    assert watched.views.recent(3600)[0]["window"] == "1d"
    watched.lab.now += 20 * 3600
    assert watched.views.recent(3600)[0]["window"] == "7d"
    watched.lab.now += 40 * 86400
    (table,) = watched.views.recent(3600)
    assert (table["window"], table["n"], table["too_few"]) == ("30d", 0, True)


@pytest.mark.slow
def test_a_tag_has_the_window_that_it_needs(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(make_lab(CLIMATE, devices=DEVICES), monkeypatch, tags=True)
    watched.report(20, seconds=4 * 3600)
    whole, roof = watched.views.recent(900)
    assert (whole["tag"], whole["window"]) == (None, "15min")
    assert (roof["tag"], roof["window"]) == ("roof", "6h")


def test_a_change_between_two_windows_is_seen_and_told(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(make_lab(climate(4.0), devices=DEVICES), monkeypatch, tags=True)
    watched.lab.now = watched.lab.now // STEP * STEP
    watched.report(5, seconds=3600)
    middle = watched.lab.now
    watched.report(35, seconds=3600)
    (table,) = watched.views.changes(ChangeQuery(window=3600))
    (row,) = table["changes"]
    assert (table["n_before"], table["n_after"]) == (row["n_before"], row["n_after"]) == (12 * DEVICES, 12 * DEVICES)
    value, low, high = (row[key] or 0 for key in ("value", "low", "high"))
    assert low < 30 < high and low > 25, "readings rose by 30"
    assert value == pytest.approx((row["after"]["value"] or 0) - (row["before"]["value"] or 0))
    assert row["visible"] and row["sentence"] == f"temperature rose by {value:.0f} degC ({low:.0f} to {high:.0f})"
    (same,) = watched.views.changes(ChangeQuery(since=middle, before_since=middle - 3600))
    assert same["changes"] == table["changes"]
    (back,) = watched.views.changes(ChangeQuery(since=middle, before_since=0, before_until=middle - 3600))
    assert back["changes"][0]["value"] is None and "no report" in back["changes"][0]["sentence"]
    (roof,) = watched.views.changes(ChangeQuery(window=3600, tag="roof", name="temperature"))
    assert (roof["tag"], roof["members"], roof["n_after"]) == ("roof", 5, 60)
    assert (roof["changes"][0]["high"] or 0) - (roof["changes"][0]["low"] or 0) > 3 * (high - low)
    watched.report(35, seconds=3600)
    (row,) = watched.views.changes(ChangeQuery(window=3600))[0]["changes"]
    assert not row["visible"] and row["sentence"].startswith("no change of temperature is visible: ")
    watched.report(5, seconds=3600)
    (row,) = watched.views.changes(ChangeQuery(window=3600))[0]["changes"]
    assert row["sentence"].startswith("temperature fell by ") and (row["high"] or 0) < 0


def test_a_share_cap_also_weighs_a_change(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(make_lab(CLIMATE, devices=DEVICES), monkeypatch)
    watched.report(5, seconds=1800)
    since = watched.lab.now // STEP * STEP
    watched.report(5, seconds=300)
    watched.report(35, seconds=1500, devices=5)
    capped = Views(watched.lab.store, watched.views._snapshot, share_cap=0.01)
    free, held = (
        views.changes(ChangeQuery(since=since, before_since=0))[0]["changes"][0] for views in (watched.views, capped)
    )
    assert free["before"] == held["before"] and free["after"] != held["after"]
    (table,) = capped.estimates(EstimateQuery(since=since))
    assert held["after"]["value"] == table["estimates"][0]["value"]


def test_a_change_over_devices_counts_each_device_once(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards ten of a hundred devices are warm and report twelve times as often as the others."""
    watched = Watched(make_lab(climate(4.0), devices=DEVICES), monkeypatch)
    watched.lab.now = watched.lab.now // STEP * STEP
    watched.report(5, seconds=3600)
    watched.report(5, seconds=STEP)
    watched.report(35, seconds=3600 - STEP, devices=10)
    (row,) = watched.views.changes(ChangeQuery(window=3600))[0]["changes"]
    over_reports, over_devices = row, row["over_devices"]
    assert over_devices is not None
    for found, truth in ((over_reports, 30 * 110 / 210), (over_devices, 30 * 0.1 * 11 / 12)):
        assert (found["low"] or 0) <= truth <= (found["high"] or 0)
    assert (over_devices["high"] or 0) < (over_reports["low"] or 0)
    assert over_devices["sentence"].startswith("no change of temperature over devices is visible: ")
    (table,) = watched.views.estimates(EstimateQuery(since=watched.lab.now - 3600))
    figure = table["estimates"][0]["over_devices"]
    assert figure is not None and over_devices["after"]["value"] == figure["value"]
    (fast,) = watched.views.changes(ChangeQuery(window=3600, devices=False))[0]["changes"]
    assert fast == {**row, "over_devices": None}


def test_amounts_have_the_digits_that_their_interval_allows() -> None:
    assert amount(1.23, 0.43, 2.03, "°C") == "1.2 °C (0.4 to 2.0)"
    assert amount(-0.3, -1.1, 0.5, "°C") == "-0.3 °C (-1.1 to 0.5)"
    assert amount(0.0512, 0.0312, 0.0712, "") == "0.05 (0.03 to 0.07)"
    assert amount(123.4, 23.4, 223.4, "ppm") == "123 ppm (23 to 223)"
    assert amount(0.0, 0.0, 0.0, "") == "0.000000 (0.000000 to 0.000000)"
    assert amount(-0.001, -20.0, 20.0, "") == "0 (-20 to 20)"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "window: must be given, such as 24h, or else since and before_since"),
        ({"since": "20"}, "window: must be given"),
        ({"window": "24h", "until": "20"}, "window: cannot be combined with until"),
        ({"window": "yesterday"}, "window: must be a number from 1 to 9999 and a unit, such as 30min, 24h or 7d"),
        ({"window": "0h"}, "window: must be a number from 1 to 9999"),
        ({"window": "99999h"}, "window: must be a number from 1 to 9999"),
        ({"window": "1h\n"}, "window: must be a number from 1 to 9999"),
    ],
)
def test_changes_without_two_spans_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        parse_query(ChangeQuery, given)
    with pytest.raises(ParameterError, match="windw: unknown parameter"):
        parse_query(ChangeQuery, {"windw": "1h"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (ChangeQuery(since=20, until=20, before_since=0), "since: must be before until"),
        (ChangeQuery(since=4e9, before_since=0), "since: must be before until, or before now"),
        (ChangeQuery(since=20, before_since=20), "before_since: must be before before_until"),
        (ChangeQuery(since=20, before_since=10, before_until=21), "before_until: must not be after since"),
        (ChangeQuery(window=60, name="rain"), "name: no attribute or category is called 'rain'"),
        (ChangeQuery(window=60, profile="sky"), "profile: 'sky' is not in this fleet"),
        (ChangeQuery(window=60, tag="roof"), "tag: no device has 'roof'"),
    ],
)
def test_spans_that_overlap_or_are_empty_are_refused(watched: Watched, given: ChangeQuery, said: str) -> None:
    with pytest.raises(QueryError, match=said):
        watched.views.changes(given)


def test_windows_and_their_names() -> None:
    assert windows(3600) == (3600, 21_600, 86_400, 604_800, 2_592_000)
    assert windows(21_600) == windows(3600)[1:]
    assert windows(10**7) == (10**7,)
    assert [window_name(seconds) for seconds in (3600, 5400, 90, 86_400, 604_800)] == ["1h", "90min", "90s", "1d", "7d"]


def test_one_report_is_too_few_and_the_wait_follows_from_the_plan(watched: Watched) -> None:
    """An opening burst must not make a promise: 20 reports in a second, and then one in five minutes."""
    for number in range(1, 21):
        watched.lab.send(watched.lab.frames(1, [number], 0.0))
    watched.lab.now += 1
    (table,) = watched.views.estimates()
    (row,) = table["estimates"]
    missing, waits, later = row["reports_missing"], row["seconds_to_value"], row["seconds_missing"]
    assert missing is not None and waits is not None and later is not None
    assert row["too_few"] and (row["half_width"] or 0) > 0.25
    assert table["rate"] == pytest.approx(1 / STEP)
    assert later == pytest.approx(missing * STEP)
    assert 0 < waits < later
    watched.lab.now += 86_400
    (table,) = watched.views.estimates()
    assert table["rate"] == 0
    assert table["estimates"][0]["seconds_missing"] is None, "nobody is heard, so nobody knows"


def test_silence_is_counted_and_named(watched: Watched) -> None:
    before = watched.views.device_counts()
    assert (before.heard, before.states[Standing.NEW]) == (0, DEVICES)
    assert {**before.response(START), "states": None} == {
        "states": None,
        "heard": 0,
        "last_report": None,
        "silent_seconds": None,
        "held_reports": None,
        "stalled_devices": None,
    }
    watched.report(20, seconds=STEP)
    assert watched.views.device_counts().response(watched.lab.now)["silent_seconds"] is None, (
        "the next one is due only now"
    )
    watched.lab.now += 1200 - STEP
    told = watched.views.device_counts().response(watched.lab.now)
    assert (told["silent_seconds"], told["states"]["silent"]) == (1200, DEVICES)
    assert told["states"]["sensor failing"] == 0


def test_one_device_that_says_it_is_slow_hides_the_silence_of_others_for_a_day_at_most(watched: Watched) -> None:
    watched.claims[1] = Claim(state="online", interval_ms=2**47)
    watched.report(20, seconds=STEP)
    watched.lab.now += 2 * 86_400
    told = watched.views.device_counts().response(watched.lab.now)
    assert told["silent_seconds"] == 2 * 86_400 + STEP
    assert told["states"]["silent"] == DEVICES - 1


def test_a_device_whose_sensor_fails_from_the_start_is_visible(watched: Watched) -> None:
    watched.claims[7] = Claim(state="online", heard=watched.lab.now, failing="temperature: it gave nan")
    assert watched.views.device_counts().states[Standing.FAILING] == 1
    row = watched.views.device(7)
    assert (row["state"], row["claims"] and row["claims"]["failing"]) == ("sensor failing", "temperature: it gave nan")
    watched.lab.now += 86_400
    assert watched.views.device(7)["state"] == "silent"


def expose(watched: Watched, devices: range) -> None:
    watched.lab.send([frame for device in devices for frame in watched.lab.frames(device, [2], odds=(7, 1))])


def test_many_exposed_at_once_look_like_an_accident(watched: Watched) -> None:
    watched.report(20, seconds=STEP)
    expose(watched, range(1, 20))
    assert watched.views.accident() is None, "19 of 100"
    watched.lab.now += 1800
    expose(watched, range(20, 21))
    told = watched.views.accident()
    assert told is not None
    assert (told["devices"], told["heard"], told["cause"]) == (20, 100, "rule")
    assert told["since"] == "2023-11-14T22:18:20.000+00:00"
    assert told["command"] == (
        "peel gateway pardon --cause rule --since 2023-11-14T22:18:20.000+00:00 --until 2023-11-14T22:48:20.000+00:00 "
        "--restore --reason accident"
    )
    assert "looks like an accident" in told["sentence"] and "treat it as an attack" in told["sentence"]


def test_exposures_over_a_day_are_no_accident(watched: Watched) -> None:
    watched.report(20, seconds=STEP)
    for begin in range(1, 61, 10):
        expose(watched, range(begin, begin + 10))
        watched.lab.now += 4000
    assert watched.views.accident() is None


def test_few_devices_are_no_accident(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(make_lab(CLIMATE, devices=DEVICES), monkeypatch)
    watched.report(20, seconds=STEP, devices=8)
    expose(watched, range(1, 5))
    assert watched.views.accident() is None
    expose(watched, range(5, 6))
    assert watched.views.accident() is not None


def test_what_is_asked_per_bucket_needs_no_plan(watched: Watched) -> None:
    watched.report(20, seconds=3600)
    tables = watched.views.estimates(EstimateQuery(bucket=watched.lab.store.bucket_seconds, devices=False))
    assert len(tables) > 10 and {table["rate"] for table in tables} == {None}
    assert np.all([table["estimates"][0]["too_few"] is False for table in tables])
