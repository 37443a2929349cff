# SPDX-License-Identifier: MIT
"""From tallies to published figures: pure functions on arrays."""
