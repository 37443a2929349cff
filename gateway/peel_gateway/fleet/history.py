# SPDX-License-Identifier: MIT
"""The registry's history: one random mark per change, so that a gateway can tell whether a file descends from the one it has used.

A copy of the folder that was made before the last change lacks that change's mark. A copy that was changed after it was restored has other
marks in the same places.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import ClassVar

from peel_gateway.fleet.device import FleetError
from peel_gateway.model.registry_state import RegistryState

__all__ = ["History", "RestoredFolder"]


class RestoredFolder(FleetError):  # noqa: N818 - the name says what is wrong with the folder
    """The folder does not descend from the one that the gateway has used: it was restored from an old copy, or is another fleet's."""


@dataclass(frozen=True)
class History:
    """The marks of all changes, oldest first, and the highest id ever given out."""

    marks: str = ""
    """Eight hexadecimal digits each."""
    last_id: int = 0

    _DIGITS: ClassVar[int] = 8

    @property
    def state(self) -> RegistryState:
        """The newest state."""
        revision = len(self.marks) // self._DIGITS
        return RegistryState(revision, self._mark(revision), self.last_id)

    def changed(self, last_id: int) -> History:
        """Return the history with one more change, after which the highest id is at least `last_id`."""
        return History(self.marks + secrets.token_hex(self._DIGITS // 2), max(self.last_id, last_id))

    def descends_from(self, seen: RegistryState) -> bool:
        """Tell whether the file once was in this state."""
        return seen.revision <= self.state.revision and self._mark(seen.revision) == seen.mark

    def follow(self, seen: RegistryState) -> RegistryState:
        """Return the newest state, to replace the state `seen`; RestoredFolder when the file does not descend from that."""
        if self.descends_from(seen):
            return self.state
        own = self.state.revision
        why = (
            f"it has {own} changes and the gateway has used one with {seen.revision}: changes are missing"
            if own < seen.revision
            else f"change {seen.revision} is not the one that the gateway has used"
        )
        raise RestoredFolder(
            f"devices.jsonl: does not continue the registry that this gateway's database knows: {why}. It was restored from an old copy, "
            "or is another fleet's. Put the newest devices.jsonl back. If it is lost, stop the gateway and run `peel fleet accept-restored`"
        )

    def joined(self, seen: RegistryState) -> History:
        """Return this history as one that descends from `seen` too."""
        size = self._DIGITS
        marks = self.marks.ljust(size * seen.revision, "0")
        before, after = marks[: size * (seen.revision - 1)], marks[size * seen.revision :]
        return History(f"{before}{seen.mark:0{size}x}{after}", max(self.last_id, seen.last_id))

    def _mark(self, revision: int) -> int:
        """Return the mark of a change, 0 for the state before the first."""
        end = self._DIGITS * revision
        return int(self.marks[end - self._DIGITS : end], 16) if revision else 0
