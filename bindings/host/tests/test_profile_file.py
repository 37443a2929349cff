# SPDX-License-Identifier: MIT
"""Profile files: defaults, exact decimals, and errors that name the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from peel_core import ProfileError, load_profile, parse_profile

GOOD = """
name = "climate"
mechanism = "harmony"
epsilon = 0.1
seed = 1
quota = 60
period = 3600

[[attribute]]
name = "temperature"
unit = "°C"
low = -40
high = 85.5

[[attribute]]
name = "humidity"
low = 0
high = 100
"""


def test_good() -> None:
    profile = parse_profile(GOOD)
    assert (profile.k, profile.width, profile.frame_bytes) == (2, 48, 38)
    assert profile.epsilon_q20 == 104857  # 0.1 rounded down
    assert profile.attributes[0].high_micro == 85_500_000
    assert profile.epsilon <= 0.1


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('name = "climate"', 'name = "Climate"', "name"),
        ('mechanism = "harmony"', 'mechanism = "rappor"', "mechanism"),
        ("epsilon = 0.1", "epsilon = 17", "epsilon"),
        ("epsilon = 0.1", "epsilon = true", "epsilon"),
        ("epsilon = 0.1", "epsilon = nan", "epsilon"),
        ("quota = 60", "quotas = 60", "quotas"),
        ("quota = 60", "quota = 0", "quota"),
        ("period = 3600", "", "period"),
        ("seed = 1", 'seed = "1"', "seed"),
        ("high = 85.5", "high = -50", "attribute[0].low"),
        ("high = 85.5", "high = 85.0000001", "attribute[0].high"),
        ('name = "humidity"', 'name = "temperature"', "attribute"),
        ('unit = "°C"', 'unit = "a|b"', "attribute[0].unit"),
        ("low = 0", "lo = 0", "attribute[1].lo"),
        ("seed = 1", "seed = 1\nwidth = 1", "width"),
        ("seed = 1", "seed = ", "profile"),
    ],
)
def test_errors_name_the_key(old: str, new: str, key: str) -> None:
    with pytest.raises(ProfileError) as caught:
        parse_profile(GOOD.replace(old, new, 1))
    assert caught.value.key == key


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"nothing\.toml"):
        load_profile(tmp_path / "nothing.toml")


def test_any_change_changes_the_id() -> None:
    ids = {
        parse_profile(GOOD.replace(*change)).id
        for change in [("60", "61"), ("85.5", "85.6"), ("seed = 1", "seed = 2"), ("°C", "K")]
    }
    assert len(ids | {parse_profile(GOOD).id}) == 5
