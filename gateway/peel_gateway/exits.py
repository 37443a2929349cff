# SPDX-License-Identifier: MIT
"""The table of exit codes. All `peel` commands use it, and the docs are generated from it."""

from __future__ import annotations

import enum

__all__ = ["LASTING", "Exit"]


class Exit(enum.IntEnum):
    """Exit codes and their meaning.

    An expected error names its exit code in the class attribute `exit_code`; the default is 2.
    """

    meaning: str

    def __new__(cls, value: int, meaning: str = "") -> Exit:
        """Make a row of the table. `meaning` has a default because type checkers take `Exit(2)` for a call of this."""
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    DONE = 0, "Done. A gateway: stopped on request, everything received is stored and acknowledged."
    FOUND = (
        1,
        "Done, and a problem was found: a difference, a fault, an unsound seed. Or you answered a question with no.",
    )
    USAGE = 2, "A setting, an option, a query or a named file is wrong."
    FLEET = 3, "The fleet folder cannot be used: key, devices, profiles or template."
    STORE = (
        4,
        "The database is damaged, is not Peel's, has another version or was made with other settings. A retry does not help.",
    )
    HTTP = 5, "The gateway cannot listen on the HTTP address, or the token is missing or too short."
    UNSTORED = 6, "A gateway was stopped while its store was failing. The broker keeps the unacknowledged messages."
    MISSING = (
        7,
        "A board, broker, database, disk, tool or checkout that is needed is missing or does not work now.",
    )
    INTERNAL = 70, "An error in Peel itself. The traceback is on standard error."


LASTING = frozenset({Exit.USAGE, Exit.FLEET, Exit.STORE, Exit.HTTP})
"""Codes that a restart cannot fix. A service manager need not restart a gateway that ended with one of them."""
