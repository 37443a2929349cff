# SPDX-License-Identifier: MIT
"""Errors of the fault injection itself."""

from __future__ import annotations

__all__ = ["CannotError"]


class CannotError(Exception):
    """A fault that cannot be done now, or not on this machine; the message says why. The run goes on without it."""
