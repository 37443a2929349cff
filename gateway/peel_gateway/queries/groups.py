# SPDX-License-Identifier: MIT
"""Groups of devices (a floor, a zone, a customer): whose estimates are asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peel_gateway.fleet.roll import Roll
from peel_gateway.model.tables import DeviceTallyTable
from peel_gateway.queries.table import Table

__all__ = ["FEW", "WHOLE_FLEET", "Group", "groups_of"]

FEW = 10
"""With fewer devices a group's estimate is nearly one about each of them."""

WHOLE_FLEET: Table = {"group": None, "members": None, "note": None}
"""What stands in place of `Group.table` where nobody asked for groups."""


@dataclass(frozen=True)
class Group:
    """Devices that belong together now, by id."""

    name: str
    members: frozenset[int]

    @property
    def note(self) -> str | None:
        """What to think of before its estimates are shown to anybody."""
        if len(self.members) >= FEW:
            return None
        return f"only {len(self.members)} devices: an estimate of so few says nearly as much about each of them as its own reports do"

    def table(self) -> Table:
        """What is told of it."""
        return {"group": self.name, "members": len(self.members), "note": self.note}

    def part_of(self, tallies: DeviceTallyTable) -> DeviceTallyTable:
        """The rows of its devices."""
        rows = np.isin(tallies.device, np.fromiter(self.members, np.int64, len(self.members)))
        return DeviceTallyTable(**{name: column[rows] for name, column in vars(tallies).items()})


def groups_of(devices: Roll) -> list[Group]:
    """All groups, by name; devices that are in none are left out."""
    names = sorted({about.group for about in devices.abouts if about.group})
    return [_group(devices, name) for name in names]


def _group(devices: Roll, name: str) -> Group:
    return Group(name, frozenset(devices.ids[devices.each(lambda about: about.group == name, np.bool_)].tolist()))
