# SPDX-License-Identifier: MIT
"""The demonstration's profiles, as files, and fleets that report under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path

from peel_gateway.fleet.folder import Fleet

__all__ = ["fleet_of", "make_fleet"]


def make_fleet(folder: Path, name: str = "demo", **devices: int) -> Fleet:
    """Make a simulated fleet with the built-in profiles and this many devices of each named one."""
    with as_file(files(__name__)) as profiles:
        return fleet_of(folder, name, sorted(profiles.glob("*.toml")), devices)


def fleet_of(folder: Path, name: str, profiles: Sequence[Path], devices: Mapping[str, int]) -> Fleet:
    """Make a simulated fleet with these profiles and this many devices of each named one."""
    fleet = Fleet.create(folder, name, profiles, simulated=True)
    for profile, count in devices.items():
        if count:
            fleet.enrol(profile, count=count)
    return fleet
