# SPDX-License-Identifier: MIT
"""Owners: who decides which shares this process serves."""

from __future__ import annotations

from typing import Protocol

from peel_gateway.model.share import Share
from peel_gateway.storage.store import Store
from peel_gateway.workers.crew import Crew

__all__ = ["Owner", "WholeFleet"]


class Owner(Protocol):
    """Opens the pipelines of a crew and closes them."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    @property
    def workers(self) -> int:
        """How many processes serve the fleet, this one among them."""

    def trouble(self) -> tuple[float, str] | None:
        """How long it has been unable to tell what it owns, and why; None while it can."""


class WholeFleet:
    """Has all lanes for as long as it runs: the one process that writes to a SQLite file."""

    workers = 1

    def __init__(self, crew: Crew, store: Store) -> None:
        self._crew = crew
        self._store = store

    def start(self) -> None:
        self._crew.open(Share(), self._store)

    def stop(self) -> None:
        self._crew.close(Share())

    def trouble(self) -> tuple[float, str] | None:
        return None
