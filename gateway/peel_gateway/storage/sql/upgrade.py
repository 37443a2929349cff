# SPDX-License-Identifier: MIT
"""Upgrades of the schema: numbered steps, the same for all databases.

To change the schema after a release: change `schema.tables`, and append a `Step` that makes the same change to the tables of the
version before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.schema import Words, fill_in
from peel_gateway.storage.store import StoreTooNew, StoreTooOld

__all__ = ["STEPS", "Step", "Upgraded", "check_version", "run_steps", "schema_version", "steps_from"]


@dataclass(frozen=True)
class Step:
    """One change of the schema."""

    summary: str
    """What changes, in one line, for the operator."""
    statements: str = ""
    """SQL in the words of `schema.Words`."""
    rewrite: Callable[[Connection], None] | None = None
    """Runs after the statements on each share, for what SQL alone cannot do."""


STEPS: tuple[Step, ...] = ()
"""In order; the first leads from version 1 to version 2. A step that was released never changes."""


@dataclass(frozen=True)
class Upgraded:
    """What an upgrade did."""

    place: str
    before: int
    steps: Sequence[Step]
    backup: Path | None
    """A copy of the former database, where the upgrade made one."""

    @property
    def after(self) -> int:
        """The version that the database has now."""
        return self.before + len(self.steps)


def schema_version() -> int:
    """Return the version that this gateway makes and works with."""
    return 1 + len(STEPS)


def check_version(version: int, place: object) -> None:
    """Refuse a database of another version, and say what to do."""
    if version < schema_version():
        raise StoreTooOld(
            f"{place}: has schema version {version}, this gateway needs {schema_version()}; run `peel gateway upgrade`"
        )
    steps_from(version, place)


def steps_from(version: int, place: object) -> Sequence[Step]:
    """Return the steps that a database of this version lacks; none if it is up to date. Refuse a newer one."""
    if version > schema_version():
        raise StoreTooNew(
            f"{place}: has schema version {version}, this gateway knows up to {schema_version()}; upgrade the gateway"
        )
    return STEPS[version - 1 :]


def run_steps(
    steps: Sequence[Step], words: Words, execute: Callable[[str], object], shares: Sequence[Connection]
) -> None:
    """Run steps within the caller's transaction; `execute` takes a script."""
    for step in steps:
        if step.statements:
            execute(fill_in(step.statements, words))
        if step.rewrite is not None:
            for share in shares:
                step.rewrite(share)
