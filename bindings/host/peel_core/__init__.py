# SPDX-License-Identifier: MIT
"""Peel core for hosts: the C core through cffi, in batches, with profiles, keys and projection matrices."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from peel_core.errors import CODE_NAMES, CORE_VERSION, PeelError
from peel_core.fields import ProfileError
from peel_core.keys import Keys, Secret, check_fleet_name
from peel_core.kinds import KINDS, Attribute, Kind
from peel_core.profile import Block, Profile, Statistic, burst_size, load_profile, make_profile, parse_profile

if TYPE_CHECKING:
    from peel_core.batch import (
        Keyring,
        Opened,
        derive_keys,
        encode_many,
        index_many,
        open_joined,
        open_many,
        project_many,
    )

__all__ = [
    "CODE_NAMES",
    "CORE_VERSION",
    "KINDS",
    "Attribute",
    "Block",
    "Keyring",
    "Keys",
    "Kind",
    "Opened",
    "PeelError",
    "Profile",
    "ProfileError",
    "Secret",
    "Statistic",
    "burst_size",
    "check_fleet_name",
    "derive_keys",
    "encode_many",
    "index_many",
    "load_profile",
    "make_profile",
    "open_joined",
    "open_many",
    "parse_profile",
    "project_many",
]


def __getattr__(name: str) -> Any:
    """Load `peel_core.batch` on first use: numpy takes longer to import than everything else, and some commands do not need it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("peel_core.batch"), name)
