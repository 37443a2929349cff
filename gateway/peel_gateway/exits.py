# SPDX-License-Identifier: MIT
"""How the gateway's commands end."""

from __future__ import annotations

import enum

__all__ = ["Exit"]


class Exit(enum.IntEnum):
    """Exit codes of `peel gateway run`."""

    STOPPED = 0
    """Stopped on request: everything received was stored and acknowledged."""
    USAGE = 2
    """A setting or an argument is wrong."""
    FLEET = 3
    """The fleet folder is refused: key, devices or profiles."""
    STORE = 4
    """The database is damaged, foreign, too new, or cannot be opened."""
    HTTP = 5
    """The address cannot be listened on, or the token is missing."""
    UNSTORED = 6
    """Stopped on request while the store was failing: the broker keeps what was not acknowledged."""
    INTERNAL = 70
    """An error in the gateway itself; the log has the traceback."""
