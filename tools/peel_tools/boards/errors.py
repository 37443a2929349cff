# SPDX-License-Identifier: MIT
"""What stops a board build."""

from __future__ import annotations

__all__ = ["BuildError", "MissingToolError"]


class BuildError(Exception):
    """A build step that cannot go on; the message says what failed and what to do next."""


class MissingToolError(BuildError):
    """A tool that is not installed here; the message names its package. Tests may skip for this, and for nothing else."""
