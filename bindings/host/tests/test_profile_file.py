# SPDX-License-Identifier: MIT
"""Profile files: defaults, exact decimals, and errors that name the key."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from peel_core import ProfileError, load_profile, parse_profile
from peel_core.kinds import CHOICE, HASHED, SIGN

GOOD = """
name = "climate"
epsilon = 0.1
verify = false
seed = 1
quota = 60
period = 3600

[[attribute]]
kind = "mean"
name = "temperature"
unit = "°C"
low = -40
high = 85.5

[[attribute]]
kind = "mean"
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
        ("seed = 1", 'seed = 1\nmechanism = "harmony"', "mechanism"),
        ('kind = "mean"\nname = "temperature"', 'kind = "rappor"\nname = "temperature"', "attribute[0].kind"),
        ('name = "humidity"', 'name = "humidity"\nweight = 0', "attribute[1].weight"),
        ('name = "humidity"', 'name = "humidity"\nweight = 17', "attribute[1].weight"),
        ("epsilon = 0.1", "epsilon = 7", "epsilon"),
        ("epsilon = 0.1", "epsilon = 6", "epsilon"),
        ("epsilon = 0.1", "epsilon = 0.001", "epsilon"),
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
        ("seed = 1", "seed = 1\nbucket = 60", "bucket"),
        ("verify = false", "bucket = 86401", "bucket"),
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


def test_a_change_of_verified_coins_changes_the_id() -> None:
    good = GOOD.replace("epsilon = 0.1\nverify = false", "epsilon = 1")
    keys = ["verify = false", "", "bucket = 60", "offline = 60"]
    assert len({parse_profile(f"{key}\n{good}").id for key in keys}) == 4
    assert parse_profile(good).id == parse_profile(f"verify = true\nbucket = 300\n{good}").id


ROOM = """\
name = "room"
epsilon = 1
verify = false
seed = 1
quota = 60
period = 3600
attribute = [
  {kind = "mean", name = "temperature", unit = "C", low = -10, high = 50},
  {kind = "above", name = "temperature", unit = "C", thresholds = [26, 30]},
  {kind = "ladder", name = "co2", low = 400, high = 2000, rungs = [600, 800]},
  {kind = "category", name = "door", categories = ["open", "shut"]},
  {kind = "hashed", name = "error", domain = 5000},
]
"""


def test_a_mixed_profile_has_questions_side_by_side() -> None:
    room = parse_profile(ROOM)
    assert [room.attributes[each.attribute].kind for each in room.questions] == [
        *("mean", "above", "above", "ladder", "ladder", "category", "hashed")
    ]
    assert [(block.form, block.questions, block.first_column) for block in room.blocks] == [
        *((SIGN, 5, 0), (CHOICE, 1, 5), (HASHED, 1, 7))
    ]
    assert (room.k, room.size, room.frame_bytes) == (10, 5 + 2 + 5000, 38)
    assert [room.label(place) for place in (0, 1, 3, 5, 7)] == [
        *("temperature", "temperature > 26", "co2 > 600", "door: open", "error: 0")
    ]


def test_places_of_units_and_cells_lead_back() -> None:
    room = parse_profile(ROOM)
    units = np.arange(room.units)
    assert (room.unit(room.first_cell(units)) == units).all()
    assert room.question(units).tolist()[:7] == [0, 1, 2, 3, 4, 5, 6]
    cells = np.arange(room.cells)
    columns = {SIGN: lambda local: local, CHOICE: lambda local: local, HASHED: lambda local: local % 3}
    for cell in cells[:200].tolist():
        block = room.blocks[int(room.block_of_cell(cell))]
        column = block.first_column + columns[block.form](cell - block.first_cell)
        assert room.cell(room.unit(cell), column) == cell


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("thresholds = [26, 30]", "thresholds = [26, 50]", "attribute[1].thresholds"),
        ("thresholds = [26, 30]", "thresholds = [30, 26]", "attribute[1].thresholds"),
        ("thresholds = [26, 30]", "thresholds = []", "attribute[1].thresholds"),
        (
            '"temperature", unit = "C", thresholds = [26, 30]',
            '"co2", thresholds = [700, 800]',
            "attribute[1].thresholds",
        ),
        ("rungs = [600, 800]", "rungs = [800, 600]", "attribute[2].rungs"),
        ("rungs = [600, 800]", "rungs = [600, 2400]", "attribute[2].rungs"),
        ("rungs = [600, 800]", "rungs = 1", "attribute[2].rungs"),
        ('name = "co2"', 'name = "door"', "attribute[2].name"),
        ('"above", name = "temperature", unit = "C"', '"above", name = "temperature", unit = "F"', "attribute[0].unit"),
        ('kind = "hashed", name = "error"', 'kind = "category", name = "error"', "attribute[4].domain"),
        ('"category", name = "door"', '"hashed", name = "error"', "attribute"),
    ],
)
def test_attributes_that_do_not_go_together(old: str, new: str, key: str) -> None:
    with pytest.raises(ProfileError) as caught:
        parse_profile(ROOM.replace(old, new))
    assert caught.value.key == key


def test_rungs_at_equal_distances_are_round() -> None:
    ladder = parse_profile(ROOM.replace("rungs = [600, 800]", "rungs = 8")).attributes[2]
    assert ladder.thresholds == (580, 760, 930, 1110, 1290, 1470, 1640, 1820)


def test_more_symbols_than_a_projection_has() -> None:
    many = ", ".join(f'"c{place}"' for place in range(600))
    row = '{{kind = "category", name = "{}", force_category = true, categories = [{}]}},\n'
    text = ROOM.replace("attribute = [\n", "attribute = [\n" + row.format("one", many) + row.format("two", many))
    with pytest.raises(ProfileError, match="1210 symbols, more than 1024"):
        parse_profile(text)
