# SPDX-License-Identifier: MIT
"""The fleet folder and the bundles made from it."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers import as_root, climate_profile, with_checksum
from peel_device.config import load

from peel_core import burst_size, derive_keys
from peel_core.primitives import NUMBER_MAX
from peel_gateway.fleet.bundle import load_template, make_bundles, write_bundles
from peel_gateway.fleet.folder import REVOKED, Fleet, FleetError, IssuedBundle, parse_device
from peel_gateway.fleet.snapshot import take_snapshot

KRR = """
name = "state"
epsilon = 2.0
verify = false
seed = 3
quota = 10
period = 60
[[attribute]]
kind = "category"
name = "door"
categories = ["open", "shut", "jammed"]
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    for name, text in (("a.toml", climate_profile()), ("b.toml", KRR)):
        (tmp_path / name).write_text(text)
    return Fleet.create(tmp_path / "fleet", "greenhouse", [tmp_path / "a.toml", tmp_path / "b.toml"])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_create_makes_a_private_key_and_never_replaces_it(fleet: Fleet) -> None:
    key = fleet.folder / "master.key"
    assert mode(key) == 0o600
    assert len(bytes.fromhex(key.read_text())) == 32
    before = key.read_text()
    with pytest.raises(FleetError, match="is a fleet already"):
        Fleet.create(fleet.folder, "other")
    assert key.read_text() == before
    assert before.strip() not in repr(fleet.master())


def test_create_refuses_a_name_that_no_topic_may_have(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="fleet name 'Big/Fleet'"):
        Fleet.create(tmp_path / "f", "Big/Fleet")
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("wrong", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_can_read_is_refused(fleet: Fleet, wrong: int) -> None:
    (fleet.folder / "master.key").chmod(wrong)
    with pytest.raises(FleetError, match=r"others can read it .*chmod 600"):
        take_snapshot(fleet)


@pytest.mark.parametrize("content", ["", "ab", "zz" * 32, "00" * 31, "00" * 33, "00" * 100])
def test_a_key_of_another_length_is_refused(fleet: Fleet, content: str) -> None:
    (fleet.folder / "master.key").write_text(content)
    with pytest.raises(FleetError, match="64 hexadecimal digits") as caught:
        fleet.master()
    assert not content or content not in str(caught.value)


def test_the_key_of_another_fleet_is_refused(fleet: Fleet, tmp_path: Path) -> None:
    """From the wrong backup, or with a bit that has flipped: all reports would be taken for forged."""
    other = Fleet.create(tmp_path / "other", "other")
    for file in ("master.key", "fleet.toml"):
        known = (fleet.folder / file).read_text()
        (fleet.folder / file).write_text((other.folder / file).read_text())
        with pytest.raises(FleetError, match=r"master.key: is not the key of the fleet .* Restore"):
            take_snapshot(Fleet(fleet.folder))
        (fleet.folder / file).write_text(known)
    assert take_snapshot(Fleet(fleet.folder)).fleet == "greenhouse"


def test_a_key_of_somebody_else_is_refused(fleet: Fleet) -> None:
    if not as_root("chown", "65534", str(fleet.folder / "master.key")):
        pytest.skip("cannot give a file away (needs root, or sudo without a password)")
    with pytest.raises(FleetError, match=r"belongs to nobody.*runuser -u nobody"):
        fleet.master()


def test_add_counts_up_and_never_reuses(fleet: Fleet) -> None:
    assert [device.label for device in fleet.add("climate", count=3)] == ["00000001", "00000002", "00000003"]
    assert [device.id for device in fleet.add("state", ids=[0x2A])] == [42]
    assert [device.id for device in fleet.add("climate")] == [43]
    with pytest.raises(FleetError, match="0000002a: registered already"):
        fleet.add("climate", ids=[42])
    with pytest.raises(FleetError, match="there is: climate, state"):
        fleet.add("weather")
    assert len(fleet.devices()) == 5


def test_snapshot_derives_the_keys_and_knows_the_revoked(fleet: Fleet) -> None:
    fleet.add("state", ids=[9])
    fleet.add("climate", ids=[5, 7])
    fleet.add("climate", ids=[11])
    fleet.issue([5, 9], first_number=3)
    fleet.issue([5, 7], first_number=10**6)
    fleet.revoke([7])
    snapshot = take_snapshot(fleet)
    assert snapshot.revoked == {7}
    assert snapshot.keyring.device_ids.tolist() == [5, 7, 9]
    names = [snapshot.keyring.profiles[place].name for place in snapshot.keyring.profile_of]
    assert names == ["climate", "climate", "state"]
    salts = fleet.devices().salts
    keys = derive_keys(fleet.master().reveal(), "greenhouse", [5, 5, 7, 9], [3, 10**6, 10**6, 3], salts)
    assert np.array_equal(snapshot.keyring.keys.seal, keys.seal)
    assert np.array_equal(snapshot.keyring.keys.index, keys.index)
    assert np.array_equal(snapshot.keyring.keys.receipt, keys.receipt)
    assert snapshot.issued_at(np.array([5, 7, 9, 11, 12]))[0].tolist() == [10**6, 10**6, 3, 0, 0]
    enrolled = snapshot.enrolled_at(np.array([5, 11, 12]))
    assert np.all(enrolled[:2] > 1.7e9), "11 is registered, though it has no keys yet"
    assert enrolled[2] == 0


def test_an_empty_fleet_is_a_fleet(fleet: Fleet) -> None:
    assert len(take_snapshot(fleet).keyring.device_ids) == 0


def test_revoke_and_note_are_kept(fleet: Fleet) -> None:
    fleet.add("climate", count=2)
    fleet.revoke([1])
    fleet.annotate(2, "by the door, ünïcode")
    again = Fleet(fleet.folder)
    assert again.device(1).state == REVOKED
    assert again.device(2).note == "by the door, ünïcode"
    with pytest.raises(FleetError, match="00000063: not registered"):
        fleet.revoke([99])
    with pytest.raises(FleetError, match="printable"):
        fleet.annotate(2, "a\nb")


def test_tags_are_kept_in_any_language(fleet: Fleet) -> None:
    fleet.add("climate", count=2, tags=["北棟", "Gewa\u0308chshaus 2"])
    fleet.add("climate", tags=["क्\u200dष"])
    fleet.tag([2], add=["roof", "北棟"], remove=["Gewächshaus 2"])
    again = Fleet(fleet.folder).devices()
    assert [device.tags for device in again] == [("Gewächshaus 2", "北棟"), ("roof", "北棟"), ("क्\u200dष",)]
    assert {tag: ids.tolist() for tag, ids in again.by_tag().items()} == {
        "Gewächshaus 2": [1],
        "roof": [2],
        "क्\u200dष": [3],
        "北棟": [1, 2],
    }
    assert again.tags == list(again.by_tag())


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ([""], "must have 1 to 32 characters and at most 64 bytes"),
        (["x" * 33], "got 33 characters and 33 bytes"),
        (["棟" * 22], "got 22 characters and 66 bytes"),
        (["a/b"], "must not contain / + # , or control characters"),
        (["a+b"], "must not"),
        (["a#b"], "must not"),
        (["a,b"], "must not"),
        ([" a"], "must not begin or end with a space"),
        (["a\u3000"], "must not begin or end with a space"),
        (["a\nb"], r"tag 'a\nb': must not"),
        (["a\x9bb"], "must not"),
        (["a\u2028b"], "must not"),
        (["a\u202eb"], "must not"),
        (["a\udcffb"], "must not"),
        (["ä", "a\u0308"], "tag 'ä': given twice"),
        ([f"{n}" for n in range(17)], "17 given, but a device has at most 16"),
    ],
)
def test_tags_that_no_device_may_have(fleet: Fleet, tags: list[str], said: str) -> None:
    fleet.add("climate")
    for change in (partial(fleet.add, "climate", tags=tags), partial(fleet.tag, [1], add=tags)):
        with pytest.raises(FleetError) as caught:
            change()
        assert said in str(caught.value)
    assert [device.tags for device in fleet.devices()] == [()]


def test_wrong_changes_of_tags_change_nothing(fleet: Fleet) -> None:
    fleet.add("climate", tags=[f"{n:02}" for n in range(15)])
    fleet.add("climate", tags=["cellar"])
    for ids, add, remove, said in (
        ([1], ["15", "16"], [], "device 00000001: would have 17 tags, but at most 16"),
        ([2], ["roof"], ["roof"], "'roof': cannot be added and removed at once"),
        (
            [2],
            ["roof"],
            ["celar"],
            "'celar': cannot be removed, because none of these devices has it. Their tags are: cellar",
        ),
        ([2, 99], ["roof"], [], "00000063: not registered"),
    ):
        with pytest.raises(FleetError, match=said):
            fleet.tag(ids, add=add, remove=remove)
    assert [len(device.tags) for device in fleet.devices()] == [15, 1]
    fleet.tag([1, 2], add=["15"], remove=["cellar"])
    assert [len(device.tags) for device in fleet.devices()] == [16, 1]


HEAD = '{"peel_devices": 1, "clock": "2026-01-01T00:00:00Z", "history": "0123abcd", "last_id": 1, "used": {}}\n'
ROW = '{"id": "1", "profile": "climate", "state": "active", "created": "2026-01-01T00:00:00Z"}'
BUNDLE = (
    '{"first_number": 9, "last_number": 99, "salt": "00112233445566778899aabbccddeeff", "made": "2026-01-01T00:00:00Z", '
    '"profile": "climate", "profile_id": "0", "quota": 1, "period": 1}'
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1"),
        ("{}", "must begin with"),
        (with_checksum(HEAD) + ROW, "missing"),
        (HEAD, "the file is truncated"),
        (HEAD + ROW, "the file is truncated"),
        (with_checksum(HEAD + ROW).replace("active", "revoked"), "line 3: wrong checksum"),
        (HEAD + '{"id": "1", "profile": "climate"}', "'state' is missing"),
        (HEAD + "7", "line 2: not a JSON object"),
        (HEAD + '{"id": "1", "profile": "climate", "state": "active"', "line 2"),
        (with_checksum(HEAD + ROW.replace("active", "gone")), "state must be"),
        (with_checksum(HEAD + ROW[:-1] + ', "tags": "roof"}'), 'device 1: tags must be a list of texts, not "roof"'),
        (with_checksum(HEAD + ROW[:-1] + ', "tags": [["roof"]]}'), "must be a list of texts"),
        (with_checksum(HEAD + ROW[:-1] + ', "tags": ["a", "a"]}'), "device 00000001: tag 'a': given twice"),
        (with_checksum(HEAD + ROW[:-1] + ', "tags": ["a/b"]}'), "device 00000001: tag 'a/b': must not"),
        (with_checksum(HEAD + ROW[:-1] + ', "tags": ["b", "a"]}'), "must be sorted"),
        (with_checksum(HEAD + ROW[:-1] + f', "tags": {json.dumps([f"{n:02}" for n in range(17)])}}}'), "17 given"),
        (with_checksum(HEAD + ROW.replace("2026-01-01T00:00:00Z", "soon")), "cannot be read"),
        (with_checksum(HEAD + ROW.replace("T00:00:00Z", "")), "time zone"),
        (with_checksum(HEAD + ROW.replace('"1"', '"0"')), "must be from 00000001"),
        (with_checksum(HEAD + ROW.replace("climate", "nope")), "its profile 'nope' is not in"),
        (with_checksum(HEAD + ROW + "\n" + ROW.replace('"1"', '"01"')), "listed twice"),
        (with_checksum(HEAD + ROW[:-1] + f', "bundles": [{BUNDLE}, {BUNDLE}]}}'), "must ascend"),
        (with_checksum(HEAD + ROW[:-1] + f', "bundles": [{BUNDLE.replace("T00:00:00Z", "")}]}}'), "time zone"),
        (with_checksum(HEAD + ROW[:-1] + f', "bundles": [{BUNDLE.replace("9,", "9.5,", 1)}]}}'), "cannot be read"),
        (
            with_checksum(HEAD + ROW[:-1] + f', "bundles": [{BUNDLE.replace("eeff", "ee")}]}}'),
            "salt has 15 bytes, not 16",
        ),
        (with_checksum(HEAD.replace("0123abcd", "0123")), "history must be marks"),
        (with_checksum(HEAD.replace('"last_id": 1, ', "")), "'last_id' is missing"),
    ],
)
def test_a_broken_list_is_refused(fleet: Fleet, text: str, said: str) -> None:
    (fleet.folder / "devices.jsonl").write_text(text)
    with pytest.raises(FleetError) as caught:
        take_snapshot(fleet)
    assert said in str(caught.value)


def test_two_profiles_of_one_name_are_refused(fleet: Fleet) -> None:
    (fleet.folder / "profiles" / "copy.toml").write_text(climate_profile())
    with pytest.raises(FleetError, match="second profile named 'climate'"):
        take_snapshot(fleet)


def test_a_changed_profile_needs_a_new_name(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "changed.toml").write_text(climate_profile().replace("epsilon = 1.0", "epsilon = 4.0"))
    with pytest.raises(FleetError, match="Give the changed profile a new name"):
        fleet.adopt_profile(tmp_path / "changed.toml")


def test_the_fingerprint_follows_the_files(fleet: Fleet) -> None:
    before = fleet.fingerprint()
    assert fleet.fingerprint() == before
    fleet.add("climate")
    assert fleet.fingerprint() != before


@pytest.mark.parametrize("text", ["", "xyz", "0", "100000000", "-1"])
def test_bad_device_ids(text: str) -> None:
    with pytest.raises(FleetError, match="device"):
        parse_device(text)


def test_a_bundle_holds_one_devices_keys_and_the_firmware_takes_it(fleet: Fleet, tmp_path: Path) -> None:
    fleet.add("climate", ids=[0x2A, 0x2B])
    template = tmp_path / "template.json"
    sensors = {"temperature": {"kind": "internal_temperature"}, "soil": {"kind": "adc", "pin": 26}}
    template.write_text(
        json.dumps(
            {
                "mqtt": {"host": "broker", "port": 8883, "user": "u", "password": "p", "tls": True, "ca": "ca.der"},
                "wifi": {"ssid": "net", "password": "w"},
                "sensors": sensors,
                "board": "pico_w",
            }
        )
    )
    template.chmod(0o600)
    path, other = write_bundles(fleet, fleet.devices(), load_template(template), first_number=1000)
    assert mode(path) == mode(other) == 0o600
    bundle = json.loads(path.read_text())
    keys = derive_keys(fleet.master().reveal(), "greenhouse", [0x2A], [1000], fleet.device(0x2A).bundles[-1].salt)
    for name in ("seal", "index", "receipt"):
        assert bundle[f"{name}_key"] == getattr(keys, name)[0].tobytes().hex()
    assert fleet.master().reveal().hex() not in path.read_text()
    assert bundle["seal_key"] not in other.read_text()
    assert json.loads(other.read_text())["seed"] != bundle["seed"]

    config = load(path.read_bytes())
    assert (config.device, config.fleet, config.first_number) == (0x2A, "greenhouse", 1000)
    assert config.profile.id == fleet.profiles()["climate"].id
    assert config.interval_ms == 1_016_471, "a day's quota of 96, of which 12 may come at once and 85 come evenly"


def first_number(path: Path) -> int:
    number = json.loads(path.read_text())["first_number"]
    assert isinstance(number, int)
    return number


def test_each_further_bundle_begins_above_what_the_former_allowed(fleet: Fleet) -> None:
    devices = fleet.add("climate", count=2)
    years = 701_280  # twenty of them, at 96 a day
    assert [first_number(path) for path in write_bundles(fleet, devices, {})] == [1, 1]
    for times in (1, 2):
        (path,) = write_bundles(fleet, devices[:1], {})
        assert first_number(path) == 1 + times * years
        assert json.loads(path.read_text())["last_number"] == (1 + times) * years
    assert [first_number(path) for path in write_bundles(fleet, devices[1:], {}, first_number=10**6)] == [10**6]
    with pytest.raises(
        FleetError, match=r"may have used all numbers below 1701280 with its former bundles\. Leave --first-number out"
    ):
        write_bundles(fleet, devices[1:], {}, first_number=10**6)


def test_when_no_numbers_are_left_a_device_gets_no_bundle(fleet: Fleet) -> None:
    fleet.enrol("climate")
    (device,) = fleet.issue([1], first_number=2**48 - 10)
    assert device.bundles[-1].last_number == 2**48 - 1
    with pytest.raises(FleetError, match=r"00000001: no report numbers are left\. Enrol a new device"):
        fleet.issue([1])


def test_a_copy_of_a_replaced_bundle_has_little_left(fleet: Fleet) -> None:
    """The gateway takes what the old board can have reached until a week after the fresh bundle was made, and no more."""
    clock = HostClock()
    fleet = Fleet(fleet.folder, clock=clock)
    fleet.enrol("climate", count=2)
    clock.true += timedelta(days=10)
    fleet.issue([1])
    keyring = take_snapshot(fleet).keyring
    assert keyring.bundle_last.tolist() == [pytest.approx(12 + 1.1 * 85 * 17, abs=2), NUMBER_MAX, NUMBER_MAX]
    assert keyring.find([1, 1, 1, 2], [900, 1700, 701_281, 1700]).tolist() == [0, -1, 1, 2]


def test_the_bundle_in_force_opens_any_number(fleet: Fleet) -> None:
    """Only the device can seal with these keys, so a number that is too high exposes it instead of an unknown sender."""
    (device,) = fleet.enrol("climate")
    beyond = device.bundles[-1].last_number + 1
    assert take_snapshot(fleet).keyring.find([1, 1], [beyond, NUMBER_MAX]).tolist() == [0, 0]


def test_times_that_make_no_sense_cut_no_bundle_short(fleet: Fleet) -> None:
    clock = HostClock()
    fleet = Fleet(fleet.folder, clock=clock)
    fleet.enrol("climate")
    clock.off = -timedelta(days=400)
    fleet.issue([1])
    assert take_snapshot(fleet).keyring.bundle_last.tolist() == [701_280, NUMBER_MAX]


class HostClock:
    """The provisioning host's clock: true time, and how far it is off."""

    def __init__(self) -> None:
        self.true = datetime(2026, 3, 1, 12, tzinfo=UTC)
        self.off = timedelta()

    def __call__(self) -> datetime:
        return self.true + self.off


def used(issue: IssuedBundle, seconds: float) -> int:
    """The largest number that a device may have used so long after it was given a bundle."""
    burst = burst_size(issue.quota)
    return issue.first_number - 1 + burst + int((issue.quota + 1 - burst) * seconds / issue.period)


def test_no_clock_makes_bundles_overlap(fleet: Fleet, rng: np.random.Generator) -> None:
    """A clock that shows anything at all, and a device that uses all that it may, in true time."""
    clock = HostClock()
    fleet = Fleet(fleet.folder, clock=clock)
    (device,) = fleet.enrol("climate")
    for _ in range(50):
        issue, seconds = device.bundles[-1], rng.exponential(30 * 86400)
        clock.true += timedelta(seconds=seconds)
        clock.off = timedelta(seconds=rng.normal(0, 1e8))
        (device,) = fleet.issue([1])
        assert used(issue, seconds) < device.bundles[-1].first_number
        assert issue.last_number < device.bundles[-1].first_number


@pytest.fixture
def limited(fleet: Fleet, tmp_path: Path) -> Fleet:
    """A fleet whose devices have a lifetime, all of which the first bundle gets."""
    text = climate_profile("limited", lifetime=20_000)
    (tmp_path / "limited.toml").write_text(text)
    fleet.adopt_profile(tmp_path / "limited.toml")
    return fleet


def test_with_a_lifetime_a_clock_that_was_set_back_issues_no_number_again(limited: Fleet) -> None:
    clock = HostClock()
    fleet = Fleet(limited.folder, clock=clock)
    (device,) = fleet.enrol("limited")
    clock.true += timedelta(days=30)
    clock.off = -timedelta(days=30)
    fleet.annotate(1, "time stands still for this machine, and 2,500 numbers were used")
    clock.off = -timedelta(days=31)
    with pytest.raises(
        FleetError, match=r"clock says 2026-02-28.* written at 2026-03-01.*Set the clock.*--first-number"
    ):
        fleet.issue([1])
    assert fleet.device(1).bundles == device.bundles
    clock.off = timedelta()
    (device,) = fleet.issue([1])
    assert device.bundles[-1].first_number > used(device.bundles[0], 30 * 86400)


def test_with_a_lifetime_a_clock_that_was_ahead_needs_an_operators_word(limited: Fleet) -> None:
    clock = HostClock()
    clock.off = timedelta(days=365)
    fleet = Fleet(limited.folder, clock=clock)
    fleet.enrol("limited", count=2)
    clock.off = timedelta()
    for _ in range(2):
        with pytest.raises(FleetError, match="00000001: this machine's clock"):
            fleet.issue([1])
    with pytest.raises(FleetError, match="may have used all numbers below"):
        fleet.issue([1], first_number=5)
    assert fleet.issue([1], first_number=5000)[0].bundles[-1].first_number == 5000
    with pytest.raises(FleetError, match="00000002: this machine's clock"):
        fleet.issue([2])


def test_a_lifetime_runs_out(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(climate_profile("short", lifetime=30))
    fleet.adopt_profile(tmp_path / "c.toml")
    devices = [*fleet.add("short"), *fleet.add("climate")]
    assert fleet.left(devices) == [30, None]
    first = [first_number(write_bundles(fleet, devices[:1], {})[0]) for _ in range(3)]
    assert first == sorted(first)
    assert fleet.left(fleet.devices())[0] == 0
    with pytest.raises(FleetError, match="may have used all 30 numbers of its profile's lifetime"):
        write_bundles(fleet, devices[:1], {})
    bundle = json.loads(fleet.bundle_path(devices[0]).read_text())
    assert bundle["profile"]["lifetime"] == 30


def test_each_bundle_has_keys_of_its_own_and_the_registry_remembers_all(fleet: Fleet) -> None:
    devices = fleet.add("climate")
    bundles = [json.loads(write_bundles(fleet, devices, {})[0].read_text()) for _ in range(3)]
    for name in ("seal_key", "index_key", "receipt_key"):
        assert len({bundle[name] for bundle in bundles}) == 3
    firsts = [bundle["first_number"] for bundle in bundles]
    assert [bundle.first_number for bundle in fleet.device(1).bundles] == firsts
    keyring = take_snapshot(fleet).keyring
    numbers = [number for first in firsts for number in (first, first + 1)]
    keys = keyring.keys.of(keyring.find(np.ones(6), numbers))
    assert [key.tobytes().hex() for key in keys.seal] == [b["seal_key"] for b in bundles for _ in range(2)]


def test_a_device_without_a_bundle_has_none_to_write(fleet: Fleet) -> None:
    with pytest.raises(FleetError, match="00000001: no bundle was issued"):
        list(make_bundles(fleet, fleet.add("climate"), {}))


def test_the_firmware_takes_a_bundle_with_categories(fleet: Fleet) -> None:
    devices = fleet.add("state")
    (path,) = write_bundles(fleet, devices, {"sensors": {"door": {"kind": "adc", "pin": 26, "edges": [1, 2]}}})
    config = load(path.read_bytes())
    assert (config.profile.questions, config.profile.columns) == (1, 3)


def test_templates_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"seal_key": "00"}')
    with pytest.raises(FleetError, match="seal_key: unknown key"):
        load_template(path)
    path.write_text('{"mqtt": {"password": "hush"}}')
    path.chmod(0o644)
    with pytest.raises(FleetError, match="chmod 600") as caught:
        load_template(path)
    assert "hush" not in str(caught.value)
    path.write_text("[]")
    with pytest.raises(FleetError, match="JSON object"):
        load_template(path)
