# SPDX-License-Identifier: MIT
"""Pipelines, one per partition of a fleet, and the workers that run them."""
