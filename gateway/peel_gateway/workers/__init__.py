# SPDX-License-Identifier: MIT
"""Pipelines, one per share of a fleet, and the workers that own them."""
