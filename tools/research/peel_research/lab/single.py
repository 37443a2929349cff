# SPDX-License-Identifier: MIT
"""Profiles with one block of questions: the lab compares mechanisms, so that each of its profiles has one."""

from __future__ import annotations

from peel_core import Block, Profile
from peel_core.kinds import CHOICE, HASHED, SIGN

__all__ = ["KIND_OF", "block_of", "hash_domain", "is_categorical", "mechanism_name"]

KIND_OF = {"harmony": "mean", "krr": "category", "hashing": "hashed"}
"""The kind of attribute that a mechanism is for."""
_MECHANISMS = {SIGN: "harmony", CHOICE: "krr", HASHED: "hashing"}


def block_of(profile: Profile) -> Block:
    """Return the only block of a profile."""
    (block,) = profile.blocks
    return block


def mechanism_name(profile: Profile) -> str:
    """Return the literature's name of the mechanism that the profile's reports are made with."""
    return _MECHANISMS[block_of(profile).form]


def is_categorical(profile: Profile) -> bool:
    """Whether a report is about one category, not about a number."""
    return block_of(profile).form != SIGN


def hash_domain(profile: Profile) -> int:
    """Return the number of categories that are hashed; 0 without hashing."""
    return block_of(profile).domain if block_of(profile).form == HASHED else 0
