# SPDX-License-Identifier: MIT
"""The costs of defences come from formulas that reproduce the papers, or say where they do not; primitives and frames are real."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

from peel_core import derive_keys, encode_many
from peel_research.lab.overheads import OverheadRow, overheads
from peel_research.lab.overheads.primitives import PAPER_MS, Primitive, library_ms, plain_ms, profile
from peel_research.lab.overheads.schemes import SCHEMES, SIZES


@pytest.fixture(scope="module")
def rows() -> dict[str, OverheadRow]:
    return {row.scheme: row for row in overheads(quick=True)}


def test_printed_bits_follow_from_the_formulas_but_for_two() -> None:
    differ = {scheme.name for scheme in SCHEMES if scheme.bits(SIZES) != scheme.bits_printed_as(SIZES)}
    assert differ == {"OT-HCMS", "Harmony-PEEL, the paper"}


def test_disagreements_are_said(rows: dict[str, OverheadRow]) -> None:
    notes = {name: row.note for name, row in rows.items()}
    assert "printed 2,016 bits, the formula gives 2,008" in notes["Harmony-PEEL, the paper"]
    assert "printed 8,209 bits, the formula gives 8,225" in notes["OT-HCMS"]
    disputed = {name for name, note in notes.items() if "its own unit costs give" in note}
    assert disputed == {"emPrivKV", "VGRR", "Secure OLH"}


@pytest.mark.parametrize("k", [16, 252])
def test_our_bits_are_those_of_a_frame_from_the_core(k: int) -> None:
    made = profile(k)
    ids = np.ones(1, np.uint32)
    keys = derive_keys(bytes(32), "overheads", ids, 1, bytes(16))
    frame = encode_many(made, ids, keys, [1], np.zeros((1, k), np.int32), entropy=os.urandom(64))[0].tobytes()
    assert 8 * len(frame) == 8 * made.frame_bytes == 128 + 32 + 8 * -(-(max(48, k) - 1) // 5) + 64


def test_times_are_measured_and_in_the_order_that_they_must_have(rows: dict[str, OverheadRow]) -> None:
    ms = {name: row.ms for name, row in rows.items() if row.ms is not None}
    ours = ms["Peel, this project"]
    assert 0 < ours < 0.1
    for name in ("Shamshad et al.", "Parameswarath et al.", "emPrivKV", "VGRR", "Secure OLH", "OT-HCMS"):
        assert ms[name] > 10 * ours, name
    assert ms["VGRR"] == pytest.approx(16 * ms["Shamshad et al."] * 2, rel=0.2), (
        "32 commitments against 2 multiplications"
    )


def test_verified_coins_cost_less_than_protocols_with_public_keys(rows: dict[str, OverheadRow]) -> None:
    ours = rows["Peel, verified coins"]
    made = profile(252, verify=True)
    frame, opening = made.frame_bytes, 24 + made.opening_bytes
    assert opening == 118
    assert ours.bits == round(8 * (frame + opening + (24 + 512 + 24 + 16 * 8) / 24))
    for name in ("VGRR", "Secure OLH"):
        assert rows[name].bits > 20 * ours.bits
        assert (rows[name].ms or 0) > 5 * (ours.ms or 1)
    assert {row.guarantee for row in rows.values() if row.scheme in ("VGRR", "Secure OLH")} != {"none about coins"}


def test_a_private_key_costs_more_than_a_public_one() -> None:
    costs = library_ms(True, plain_ms(True)[Primitive.HASH])
    assert costs[Primitive.RSA] > 3 * costs[Primitive.RSA_PUBLIC]
    assert costs[Primitive.TRANSFER] == costs[Primitive.RSA_PUBLIC] + 2 * costs[Primitive.RSA]
    assert costs.keys() | {Primitive.HASH, Primitive.FILTER, Primitive.PROJECTION} >= PAPER_MS.keys()


def test_a_quick_run_takes_no_cycles(rows: dict[str, OverheadRow]) -> None:
    assert all(row.cycles is None for row in rows.values())


def test_without_the_library_rows_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    found = {row.scheme: row for row in overheads(quick=True)}
    assert found["Shamshad et al."].ms is None
    assert "peel-telemetry[research]" in found["Shamshad et al."].note
    assert found["Peel, this project"].ms is not None
