# SPDX-License-Identifier: MIT
"""Fixtures: labs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from lab import Lab, MakeLab, Makers, harmony_profile, krr_profile

from peel_core import Profile


@pytest.fixture
def make_lab(tmp_path: Path, rng: np.random.Generator) -> Iterator[MakeLab]:
    """Return a maker of labs: profiles, number of devices."""
    labs: list[Lab] = []

    def make(*profiles: Profile, devices: int = 4) -> Lab:
        lab = Lab(tmp_path / f"lab{len(labs)}.sqlite", profiles or (harmony_profile(),), devices, rng)
        labs.append(lab)
        return lab

    yield make
    for lab in labs:
        lab.store.close()


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """A lab with four devices that report four attributes."""
    return make_lab()


@pytest.fixture
def profiles() -> Makers:
    """Makers of Harmony and kRR profiles."""
    return harmony_profile, krr_profile
