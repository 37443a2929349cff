# SPDX-License-Identifier: MIT
"""docs/reference.md explains exactly the fields of `/api/estimates`."""

from __future__ import annotations

import re
from pathlib import Path

from project_files import ROOT

from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.queries.views import Views
from peel_gateway.storage.sqlite.store import SqliteStore

GUIDE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
PROFILE = """
name = "door"
epsilon = 1
verify = false
seed = 1
quota = 1
period = 1
[[attribute]]
kind = "category"
name = "state"
categories = ["open", "shut"]
"""


def documented(header: str) -> list[str]:
    """Return the fields in the first column of the table with this header."""
    table = GUIDE.split(f"| {header} | meaning |\n")[1].split("\n\n")[0]
    return [name for line in table.splitlines()[1:] for name in re.findall(r"`(\w+)`", line.split(" | ")[0])]


def test_every_field_is_explained(tmp_path: Path) -> None:
    profile = tmp_path / "door.toml"
    profile.write_text(PROFILE)
    snapshot = take_snapshot(Fleet.create(tmp_path / "fleet", "docs", [profile]))
    store = SqliteStore(tmp_path / "peel.sqlite")
    (item,) = Views(store, lambda: snapshot).estimates()
    store.close()
    assert sorted(documented("field of an item")) == sorted(item)
    (figure, _) = item["estimates"]
    assert figure["over_devices"] is not None
    assert sorted(documented("field of a figure")) == sorted(figure)
    names = documented("field of a figure")
    assert names[names.index("over") : names.index("over_devices")] == list(figure["over_devices"])
