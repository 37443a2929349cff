# SPDX-License-Identifier: MIT
"""A device accepts the specification's receipts and no others."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

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
