# SPDX-License-Identifier: MIT
"""Measured figures: `scripts/figures` takes them (`run`), docs/figures.json keeps them (`record`), the other modules turn them into text."""
