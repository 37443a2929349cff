# SPDX-License-Identifier: MIT
"""A device accepts the specification's receipts for its kind of profile and no others."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from peel_device.coin_receipt import CoinReader
from peel_device.receipt import RUNS_MAX, Reader

VECTORS = Path(__file__).parents[2] / "spec" / "vectors"


def cases(pattern: str) -> list[Any]:
    return [
        pytest.param(case, id=f"{path.stem}-{place}")
        for path in sorted(VECTORS.glob(f"{pattern}.json"))
        for place, case in enumerate(json.loads(path.read_text(encoding="utf-8"))["cases"])
    ]


def reader(core: ModuleType, case: dict[str, Any]) -> Reader:
    return Reader(core, bytes.fromhex(case["receipt_key"]), case["device"])


@pytest.mark.parametrize("case", cases("receipt"))
def test_receipts(core: ModuleType, case: dict[str, Any]) -> None:
    found = reader(core, case).settled(bytes.fromhex(case["receipt"]))
    assert found == [(0, case["upto"]), *map(tuple, case["runs"])]
    assert len(found) <= RUNS_MAX + 1


@pytest.mark.parametrize("case", cases("receipt_bad_*"))
def test_refused_receipts(core: ModuleType, case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^peel: {case['expect']}: "):
        reader(core, case).settled(bytes.fromhex(case["receipt"]))


def coin_reader(core: ModuleType, case: dict[str, Any]) -> CoinReader:
    return CoinReader(core, bytes.fromhex(case["receipt_key"]), case["device"])


@pytest.mark.parametrize("case", cases("coin_receipt"))
def test_receipts_with_coin_fields(core: ModuleType, case: dict[str, Any]) -> None:
    receipt = bytes.fromhex(case["receipt"])
    found = coin_reader(core, case).read(receipt)
    assert found.settled == [(0, case["upto"]), *map(tuple, case["runs"])]
    assert found.era == int.from_bytes(bytes.fromhex(case["era"]), "little")
    assert (found.approved, found.audit_first, found.audit) == (case["approved"], case["audit_first"], case["audit"])
    assert (found.opened, found.seed.hex()) == (case["opened"], case["challenge_seed"])
    assert found.challenge == [tuple(run) for run in case["challenge"]]
    with pytest.raises(ValueError, match=r"^peel: (length|version): "):
        reader(core, case).settled(receipt)


@pytest.mark.parametrize("case", cases("coin_receipt_bad_*"))
def test_refused_receipts_with_coin_fields(core: ModuleType, case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^peel: {case['expect']}: "):
        coin_reader(core, case).read(bytes.fromhex(case["receipt"]))


@pytest.mark.parametrize("case", cases("receipt"))
def test_a_verified_profile_takes_no_plain_receipts(core: ModuleType, case: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^peel: (length|version): "):
        coin_reader(core, case).read(bytes.fromhex(case["receipt"]))
