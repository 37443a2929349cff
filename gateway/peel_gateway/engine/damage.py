# SPDX-License-Identifier: MIT
"""A store that holds what no gateway wrote: told as damage, whatever noticed it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from peel_gateway.screening.bets import Unplayable
from peel_gateway.storage.store import StoreCorrupt

__all__ = ["reading_stored"]


@contextmanager
def reading_stored() -> Iterator[None]:
    """While stored events are played on stored states: what cannot be played is damage."""
    try:
        yield
    except Unplayable as error:
        raise StoreCorrupt(f"the store is damaged: {error}; restore a copy") from error
