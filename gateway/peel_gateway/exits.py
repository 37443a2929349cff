# SPDX-License-Identifier: MIT
"""How commands end. This is the one table of exit codes: every command of `peel` uses it, and the docs are made from it."""

from __future__ import annotations

import enum

__all__ = ["LASTING", "Exit"]


class Exit(enum.IntEnum):
    """Exit codes, each with what it means.

    An error that a command expects says by `exit_code`, in its class, which of them it ends with; 2 where it says nothing.
    """

    meaning: str

    def __new__(cls, value: int, meaning: str = "") -> Exit:
        """A row of the table; the default is for type checkers, who take `Exit(2)` for a call of this."""
        code = int.__new__(cls, value)
        code._value_ = value
        code.meaning = meaning
        return code

    DONE = 0, "Done. A gateway: stopped on request, everything received is stored and acknowledged."
    FOUND = (
        1,
        "Done, and something is not as it should be: a difference, a fault, an unsound seed. Or a question was answered with no.",
    )
    USAGE = 2, "A setting, an option, a question or a file that was named is wrong."
    FLEET = 3, "The fleet folder is refused: key, devices, profiles, template."
    STORE = (
        4,
        "The database is damaged, foreign, of another version, or made with other settings. A retry does not help.",
    )
    HTTP = 5, "The HTTP address cannot be listened on, or the token is missing or short."
    UNSTORED = 6, "A gateway was stopped while its store was failing: the broker keeps what was not acknowledged."
    MISSING = (
        7,
        "A board, a broker, a database or its disk, a tool or a checkout that is needed is not there, or does not work now.",
    )
    INTERNAL = 70, "An error in Peel itself; the traceback is on standard error."


LASTING = frozenset({Exit.USAGE, Exit.FLEET, Exit.STORE, Exit.HTTP})
"""What does not mend itself: a service manager need not start a gateway again that has ended with one of these."""
