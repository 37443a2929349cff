# SPDX-License-Identifier: MIT
"""Measured figures: `run` takes them (`scripts/figures`), `record` keeps them (docs/figures.json), the other modules write them."""
