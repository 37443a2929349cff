# SPDX-License-Identifier: MIT
"""Which attacks are on: a file between whoever shows a demonstration and the simulation, which looks at it now and then."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Switches"]


class Switches:
    """Attacks by name, on or off. Written as a whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: dict[str, bool] = {}

    def begin(self, states: Mapping[str, bool]) -> None:
        """What can be switched from now on, and how it stands."""
        self._seen = dict(states)
        self._write(self._seen)

    def states(self) -> dict[str, bool]:
        """How everything stands; nothing before `begin`."""
        try:
            found: dict[str, bool] = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def set(self, name: str, on: bool) -> None:
        """Switch an attack on or off; ValueError for one that there is no switch for."""
        states = self.states()
        if name not in states:
            raise ValueError(f"{name!r}: no such attack here; there is: {', '.join(states) or 'none'}")
        self._write(states | {name: on})

    def changes(self) -> dict[str, bool]:
        """What has been switched since this was last asked."""
        now = self.states()
        changed = {name: on for name, on in now.items() if self._seen.get(name) != on}
        self._seen = now
        return changed

    def _write(self, states: Mapping[str, bool]) -> None:
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(states), encoding="utf-8")
        draft.replace(self._path)
