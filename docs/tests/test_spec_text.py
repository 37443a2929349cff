# SPDX-License-Identifier: MIT
"""The words and numbers of the specification match the code."""

from __future__ import annotations

import re

import numpy as np
import pytest
from project_files import ROOT

from peel_core import projection
from peel_core.projection import Soundness, soundness

SPEC = (ROOT / "spec" / "SPEC.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\d+)\. .*?\n(.*?)(?=^## |\Z)", SPEC, flags=re.M | re.S))
LABEL = re.compile(r'b?"(peel/1 [a-z ]+)"')


def test_the_labels_in_the_code_are_those_that_the_specification_lists() -> None:
    (sentence,) = re.findall(r"The labels in\s+use are (.*?)\. No two", SECTIONS["2"], flags=re.S)
    listed = set(LABEL.findall(" ".join(sentence.split())))
    sources = [
        path
        for folder in (
            "c_core/src",
            "bindings/host",
            "bindings/micropython",
            "firmware/peel_device",
            "gateway",
            "tools",
        )
        for kind in ("*.c", "*.h", "*.py")
        for path in (ROOT / folder).rglob(kind)
        if "tests" not in path.parts
    ]
    used = {label for path in sources for label in LABEL.findall(path.read_text(encoding="utf-8"))}
    assert used == listed
    assert set(LABEL.findall((ROOT / "spec" / "reference.py").read_text())) == listed - {"peel/1 device context"}


def test_every_label_is_defined_by_what_it_hashes() -> None:
    defined = set(re.findall(r'HASH\("(peel/1 [a-z ]+)", ', " ".join(SPEC.split())))
    assert defined == set(LABEL.findall(" ".join(SPEC.split())))


def test_the_thresholds_of_soundness_are_those_of_section_8() -> None:
    text = " ".join(SECTIONS["8"].split())
    assert f"at most 10^{round(np.log10(projection.MAX_CONDITION))};" in text
    assert f"a residual of at most 10^{round(np.log10(projection.MAX_HONEST_RESIDUAL))};" in text
    assert "a residual of at least 10^-2, in sixteen codewords" in text
    assert projection.MAX_CONDITION == 1e5
    assert projection.MAX_HONEST_RESIDUAL == 1e-3


@pytest.mark.parametrize(
    ("found", "sound"),
    [
        (Soundness(1e5, 1e-3, 1e-2, True), True),
        (Soundness(1.01e5, 0, 1, True), False),
        (Soundness(1, 1.01e-3, 1, True), False),
        (Soundness(1, 0, 0.99e-2, True), False),
        (Soundness(1, 0, 1, False), False),
    ],
)
def test_each_threshold_decides(found: Soundness, sound: bool) -> None:
    assert found.sound == sound


def test_no_seed_is_sound_at_width_2() -> None:
    assert "At `n = 2` no seed is" in SECTIONS["8"]
    regular = 0
    for seed in range(200):
        for k in (1, 2):
            found = soundness(seed, 2, k)
            regular += found.condition < projection.MAX_CONDITION
            assert not found.sound
    assert regular > 50, "many are regular, and fail for the reason that the text gives"
