# SPDX-License-Identifier: MIT
"""Peel core for hosts: the C core through cffi, in batches, with profiles, keys and projection matrices."""

from peel_core.batch import Keyring, Opened, encode_many, index_many, open_many, project_many
from peel_core.errors import CODE_NAMES, CORE_VERSION, PeelError
from peel_core.fields import ProfileError
from peel_core.keys import Secret, check_fleet_name, derive_keys
from peel_core.mechanisms import MECHANISMS, Attribute, Content, Mechanism
from peel_core.profile import Profile, load_profile, make_profile, parse_profile

__all__ = [
    "CODE_NAMES",
    "CORE_VERSION",
    "MECHANISMS",
    "Attribute",
    "Content",
    "Keyring",
    "Mechanism",
    "Opened",
    "PeelError",
    "Profile",
    "ProfileError",
    "Secret",
    "check_fleet_name",
    "derive_keys",
    "encode_many",
    "index_many",
    "load_profile",
    "make_profile",
    "open_many",
    "parse_profile",
    "project_many",
]
