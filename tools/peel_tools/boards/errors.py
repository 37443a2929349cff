"""The one exception of the board builds."""

from __future__ import annotations

__all__ = ["BuildError"]


class BuildError(Exception):
    """A build step that cannot go on; the message says what failed and what to do next."""
