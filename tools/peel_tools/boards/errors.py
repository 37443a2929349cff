# SPDX-License-Identifier: MIT
"""What stops a board build."""

from __future__ import annotations

from peel_gateway.exits import Exit

__all__ = ["BuildError", "MissingToolError"]


class BuildError(Exception):
    """A build step that cannot go on; the message says what failed and what to do next."""

    exit_code = Exit.MISSING


class MissingToolError(BuildError):
    """A tool that is not installed here; the message names its package. Tests may skip for this, and for nothing else."""
