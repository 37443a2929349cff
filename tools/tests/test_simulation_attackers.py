# SPDX-License-Identifier: MIT
"""Each attacker does what it says, checked with the fleet's keys and without a gateway."""

from __future__ import annotations

from math import ceil
from pathlib import Path

import numpy as np
import pytest

from peel_core import CODE_NAMES, open_many
from peel_core.frame import NUMBER
from peel_core.kinds import CHOICE, HASHED, SIGN
from peel_core.projection import reconstruct, reconstruction
from peel_gateway.fleet.snapshot import FleetSnapshot, take_snapshot
from peel_gateway.model.verdict import LAYERS, Layer, Verdict
from peel_tools.simulation.attackers import ATTACKS, Target, check_shares, default_shares, parse_attack
from peel_tools.simulation.fleet import SimulatedFleet, assign_roles
from peel_tools.simulation.piece import HONEST, Piece, digest_of
from peel_tools.simulation.session import fleet_of, make_fleet, write_unverified
from peel_tools.simulation.traces import BuiltInTraces
from peel_tools.simulation.tricks import Workshop, tampering
from peel_tools.simulation.truth import Outgoing, Truth

FORMS = {SIGN, CHOICE, HASHED}
NUMBERS, CATEGORIES, ALL = Target(frozenset({SIGN})), Target(frozenset({CHOICE})), Target(frozenset(FORMS))
VERIFIED = ALL._replace(verified=True)


@pytest.fixture
def snapshot(tmp_path: Path) -> FleetSnapshot:
    return take_snapshot(make_fleet(tmp_path / "fleet", greenhouse=8, vents=8))


class Seen:
    """The reports of attackers of one kind, opened with the fleet's keys, one entry per piece, and the rows of the truth."""

    def __init__(self, folder: Path, snapshot: FleetSnapshot, kind: str, share: float = 1.0, rounds: int = 40) -> None:
        self.truth = Truth(folder / "truth.sqlite")
        traces = {profile.name: BuiltInTraces(profile, 1) for profile in snapshot.profiles}
        fleet = SimulatedFleet(snapshot, traces, self.truth, shares={kind: share}, seed=1, burst=3)
        self.messages: list[Outgoing] = [each for _ in range(rounds) for each in fleet.reports(48, now=0.0)]
        query = "SELECT kind, bad, device, number, idx, sign, digest, profile FROM report ORDER BY message, rowid"
        self.rows = self.truth._connection.execute(query).fetchall()
        self.opened = open_many(snapshot.keyring, [message.payload for message in self.messages])
        self.codes = [CODE_NAMES.get(int(code), "") for code in self.opened.code]
        profile = snapshot.profiles[0]
        gamma = reconstruction(profile.seed, profile.width)
        self.index, self.sign, self.residual = reconstruct(gamma, self.opened.trits)
        self.rules = {profile.id: profile.blocks[0].rule for profile in snapshot.profiles}
        self.truth.close()

    def bad(self) -> list[int]:
        return [place for place, row in enumerate(self.rows) if row[1]]

    def of_kind(self, kind: str) -> list[int]:
        return [place for place, row in enumerate(self.rows) if row[0] == kind]


def test_honest_pieces_are_what_the_truth_says(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    seen = Seen(tmp_path, snapshot, "loss", 0.0)
    assert len(seen.opened) == len(seen.rows) > 1000
    assert set(seen.codes) == {""}
    assert {row[0] for row in seen.rows} == {HONEST}
    facts = zip(
        seen.opened.device.tolist(), seen.opened.number.tolist(), seen.index.tolist(), seen.sign.tolist(), strict=True
    )
    assert list(facts) == [row[2:6] for row in seen.rows]
    assert seen.residual.max() < 1e-3
    assert digest_of(seen.messages[0].payload[: len(seen.messages[0].payload) // 3]) == seen.rows[0][6]


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        ("garbage", {"length", "version", "flags", "profile"}),
        ("truncation", {"length"}),
        ("trailing", {"length", "version", "flags", "profile"}),
        ("stranger", {"device"}),
        ("foreign", {"profile"}),
        ("forgery", {"seal"}),
        ("tampering", {"seal"}),
        ("negation", {"seal"}),
        ("unsealed", {"unsealed"}),
        ("splice", {"seal"}),
    ],
)
def test_what_the_network_does_is_refused_by_the_core(
    tmp_path: Path, snapshot: FleetSnapshot, kind: str, codes: set[str]
) -> None:
    seen = Seen(tmp_path, snapshot, kind, 0.5)
    bad = seen.bad()
    assert len(seen.opened) == len(seen.rows), "the core finds every piece, also behind and before the others"
    assert len(bad) > 100
    assert {seen.codes[place] for place in bad} <= codes
    assert {seen.codes[place] for place in range(len(seen.rows)) if place not in set(bad)} == {""}


def test_a_tampered_number_is_never_0(rng: np.random.Generator) -> None:
    frame = bytearray(60)
    frame[NUMBER.start : NUMBER.end] = (256).to_bytes(6, "little")
    piece = Piece(device=1, number=256, kind=HONEST, bad=False, cell=0, index=0, sign=1, value=0, frame=bytes(frame))
    shop = Workshop(rng, {})
    for _ in range(3000):
        (turned,) = tampering(piece, shop)
        assert turned.frame != piece.frame
        assert any(turned.frame[NUMBER.start : NUMBER.end])


def test_a_replay_is_the_same_bytes(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    seen = Seen(tmp_path, snapshot, "replay", 0.5)
    assert len(seen.bad()) > 100
    for place in seen.bad():
        assert seen.rows[place][6] == seen.rows[place - 1][6]


def test_loss_leaves_gaps(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    seen = Seen(tmp_path, snapshot, "loss", 0.5)
    mine = [row[3] for row in seen.rows if row[2] == 1]
    assert len(mine) < 0.8 * max(mine)


@pytest.mark.slow
def test_devices_that_reuse_jump_and_overspend_hold_their_keys(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    for kind in ("reuse", "flood", "budget", "target", "encoder", "noise"):
        folder = tmp_path / kind
        folder.mkdir()
        seen = Seen(folder, snapshot, kind)
        bad = seen.bad()
        assert len(bad) > 100, kind
        assert {seen.codes[place] for place in range(len(seen.rows))} == {""}, kind
        if kind == "reuse":
            first = {(row[2], row[3]): row[6] for row in seen.rows if not row[1]}
            assert all(first[seen.rows[place][2:4]] != seen.rows[place][6] for place in bad)
        if kind == "flood":
            assert all(seen.opened.number[place] > 9 * 365 * 86400 * 20 for place in bad)  # nine years of quota
        if kind == "budget":
            told = seen.opened.rule[bad]
            own = np.array([seen.rules[seen.rows[place][7]] for place in bad])
            assert ((told & 255) / (told >> 8) > (own & 255) / (own >> 8)).all()  # keep / change
        if kind == "target":
            assert all(seen.index[place] == 0 != seen.opened.unit[place] for place in bad)
        structure = kind in ("encoder", "noise")
        assert all((seen.residual[place] > 0.01) == structure for place in bad), kind


@pytest.mark.parametrize(("kind", "least"), [("stuck", 1.0), ("biased", 0.9), ("hide_minus", 1.0)])
def test_coins_that_are_not_honest(tmp_path: Path, snapshot: FleetSnapshot, kind: str, least: float) -> None:
    seen = Seen(tmp_path, snapshot, kind)
    mine = seen.of_kind(kind)
    assert not seen.bad()
    assert np.mean(seen.sign[mine] > 0) >= least
    assert np.array_equal(seen.index[mine], seen.opened.unit[mine])
    assert seen.residual.max() < 1e-3


def test_one_category_and_one_attribute(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    over = Seen(tmp_path, snapshot, "overreport")
    assert set(over.index[over.of_kind("overreport")].tolist()) == {1}
    folder = tmp_path / "hide"
    folder.mkdir()
    hiding = Seen(folder, snapshot, "hide_attribute")
    assert set(hiding.index[hiding.of_kind("hide_attribute")].tolist()) == set(range(1, 8))


def test_a_lying_sensor_uses_an_honest_coin(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    seen = Seen(tmp_path, snapshot, "sensor", rounds=80)
    plus = np.mean(seen.sign[seen.of_kind("sensor")] > 0)
    assert 0.70 < plus < 0.76  # 8 / 11 = 0.727


def test_patience_follows_how_often_the_attacked_questions_are_asked(tmp_path: Path) -> None:
    (room,) = take_snapshot(make_fleet(tmp_path / "fleet", room=1)).profiles
    assert room.slots == 15
    for name, weight in (("stuck", 9), ("subset", 3), ("overreport", 6), ("hide_attribute", 1)):
        alone = ATTACKS[name].patience
        assert alone is not None
        assert ATTACKS[name].patience_in(room) == ceil(alone * 15 / weight), name
    assert ATTACKS["reuse"].patience_in(room) is None


@pytest.mark.parametrize("kind", ["stuck", "mixed", "subset", "overreport", "hide_minus", "hide_attribute"])
def test_a_mixed_device_attacks_only_questions_of_the_attacks_forms(tmp_path: Path, kind: str) -> None:
    snapshot = take_snapshot(fleet_of(tmp_path / "fleet", "demo", [write_unverified("room", tmp_path)], {"room": 8}))
    (room,) = snapshot.profiles
    seen = Seen(tmp_path, snapshot, kind, rounds=80)
    assert set(seen.codes) == {""}
    cells = room.cell(seen.opened.unit.astype(np.int64), seen.index)
    assert cells.tolist() == [row[4] for row in seen.rows], "an attacker answers the question that is asked"
    form = np.array([block.form for block in room.blocks])[room.block_of_cell(cells)]
    temperature, door = (seen.index == 0), (form == CHOICE)
    if kind == "stuck":
        assert (seen.sign[form == SIGN] > 0).all()
    if kind == "hide_minus":
        assert (seen.sign > 0).all()
    if kind == "hide_attribute":
        assert not temperature.any()
    if kind == "overreport":
        assert set(seen.index[door].tolist()) == {room.blocks[1].first_column + 1}
    elif kind == "subset":
        assert set(seen.index[door].tolist()) == {room.blocks[1].first_column}
    else:
        assert set(seen.index[door].tolist()) == {9, 10, 11}, "honest about the door"
    assert set(form.tolist()) == FORMS


def test_roles_are_shares_of_the_devices_that_can_play_them() -> None:
    roles = assign_roles(
        [NUMBERS] * 80 + [CATEGORIES] * 20, {"stuck": 0.1, "overreport": 0.5, "reuse": 0.1}, np.random.default_rng(1)
    )
    assert (roles.count("stuck"), roles.count("overreport"), roles.count("reuse")) == (8, 10, 10)
    assert set(roles[:80]) == {"stuck", "reuse", HONEST}
    with pytest.raises(ValueError, match=r"noise=0.9: needs 9 devices, and only 5 are left"):
        assign_roles([NUMBERS] * 10, {"stuck": 0.5, "noise": 0.9}, np.random.default_rng(1))


def test_every_kind_names_its_layer_and_what_must_expose_it() -> None:
    assert {attack.layer for attack in ATTACKS.values()} == {None, *LAYERS} - {Layer.WITHDRAWAL}
    for attack in ATTACKS.values():
        expected = attack.verdicts | attack.causes
        assert bool(expected) == bool(attack.layer), attack.name
        assert {verdict.layer for verdict in expected} <= {attack.layer, None}, attack.name
        assert bool(attack.causes) <= attack.by_device, attack.name
        assert (attack.patience is not None) == (Verdict.STATISTICS in attack.causes), attack.name
        assert attack.forms <= FORMS, attack.name


def test_about_every_tenth_report_and_device_of_a_demonstration_is_an_attackers() -> None:
    for target in (ALL, VERIFIED):
        shares = default_shares({target})
        for by_device in (False, True):
            kinds = [name for name in shares if ATTACKS[name].by_device == by_device]
            assert 0.05 <= sum(shares[name] for name in kinds) <= 0.25
        without = Layer.STATISTICS if target.verified else Layer.COIN
        assert {ATTACKS[name].layer for name in shares} == {attack.layer for attack in ATTACKS.values()} - {without}
    assert "overreport" not in default_shares({NUMBERS})
    assert "stuck" not in default_shares({CATEGORIES})


def test_an_attack_that_fits_no_device_is_refused_with_those_that_do() -> None:
    check_shares({"stuck": 0.1, "overreport": 0.1, "forgery": 0.1}, {NUMBERS, CATEGORIES})
    check_shares({"overreport": 0.0}, {NUMBERS})
    with pytest.raises(
        ValueError, match=r"overreport=0.1: fits no device of this fleet. It attacks categories and hashed categories"
    ) as refused:
        check_shares({"overreport": 0.1}, {NUMBERS})
    assert str(refused.value).endswith("hide_minus, hide_attribute, sensor, burst")
    with pytest.raises(ValueError, match="unknown attack 'stick'; known are: garbage, truncation"):
        check_shares({"stick": 0.0}, {NUMBERS})


def test_attacks_are_parsed_with_reasons() -> None:
    assert parse_attack("stuck=0.05") == ("stuck", 0.05)
    with pytest.raises(ValueError, match="unknown attack 'stick'; known are: garbage"):
        parse_attack("stick=0.05")
    for text in ("stuck", "stuck=", "stuck=5%", "stuck=1.5", "stuck=-1", "stuck=nan"):
        with pytest.raises(ValueError, match=r"give the share as a number from 0 to 1"):
            parse_attack(text)


def test_a_demonstration_begins_without_devices_that_nobody_can_expose() -> None:
    """They pull estimates away from the truth for ever. Devices that stall do not: nothing of theirs counts."""
    for name in default_shares({ALL, VERIFIED}):
        attack = ATTACKS[name]
        assert attack.layer is not None or not attack.by_device or attack.stalls, name
