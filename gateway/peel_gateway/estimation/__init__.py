# SPDX-License-Identifier: MIT
"""From tallies to published estimates: pure functions on arrays."""
