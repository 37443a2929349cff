# SPDX-License-Identifier: MIT
"""Fixtures: fields."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from field import Field, MakeField, open_broker


@pytest.fixture(scope="module")
def start_field(seed: int) -> Iterator[MakeField]:
    """Return a maker of fields that last for a module: folder, options of the broker."""
    fields: list[Field] = []

    def make(folder: Path, **options: object) -> Field:
        fields.append(Field(folder, open_broker(folder / "broker", **options), np.random.default_rng(seed)))
        return fields[-1]

    yield make
    for field in fields:
        field.close()


@pytest.fixture
def make_field(tmp_path: Path, rng: np.random.Generator) -> Iterator[MakeField]:
    """Return a maker of fields; options go to the broker."""
    fields: list[Field] = []

    def make(**options: object) -> Field:
        folder = tmp_path / f"field{len(fields)}"
        folder.mkdir()
        fields.append(Field(folder, open_broker(folder / "broker", **options), rng))
        return fields[-1]

    yield make
    for field in fields:
        field.close()


@pytest.fixture
def field(make_field: MakeField) -> Field:
    """A field with a plain broker that keeps sessions."""
    return make_field(persistent=True)
