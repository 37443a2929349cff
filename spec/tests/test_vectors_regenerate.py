# SPDX-License-Identifier: MIT
"""The committed vectors are exactly the output of the reference."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

SPEC = Path(__file__).parents[1]
COMMITTED = SPEC / "vectors"
HEADER = SPEC.parent / "c_core" / "include" / "peel.h"


@pytest.fixture(scope="module")
def regenerated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("vectors")
    subprocess.run([sys.executable, SPEC / "make_vectors.py", directory], check=True)
    return directory


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


@pytest.mark.slow
def test_no_file_is_missing_or_extra(regenerated: Path) -> None:
    assert names(COMMITTED) == names(regenerated)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(names(COMMITTED)))
def test_file_is_what_the_reference_makes(regenerated: Path, name: str) -> None:
    hint = f"spec/vectors/{name} differs: run spec/make_vectors.py and look at the difference"
    made, committed = ((directory / name).read_bytes().splitlines() for directory in (regenerated, COMMITTED))
    assert made == committed, hint


@pytest.mark.parametrize("name", sorted(names(COMMITTED)))
def test_file_has_a_comment_and_cases(name: str) -> None:
    vectors = json.loads((COMMITTED / name).read_text("utf-8"))
    assert vectors.keys() == {"_comment", "cases"}
    assert vectors["_comment"]
    assert vectors["cases"]


def test_faults_of_frames_encoders_and_coins_are_codes_of_the_core() -> None:
    codes = {code.lower() for code in re.findall(r"PEEL_E_(\w+) = -\d+", HEADER.read_text("utf-8"))}
    faults = {
        case["expect"]
        for pattern in ("frame_bad_*", "encode_bad_*", "opening_bad_*", "message_bad_*", "coin_receipt_bad_*")
        for path in COMMITTED.glob(f"{pattern}.json")
        for case in json.loads(path.read_text("utf-8"))["cases"]
    }
    assert codes - {"order"} == faults  # vectors do not cover the order of calls


def test_vectors_stay_small_enough_for_a_board() -> None:
    assert sum(path.stat().st_size for path in COMMITTED.iterdir()) < 600 * 1024
