# SPDX-License-Identifier: MIT
"""The planner: what a fleet would know, give away, cost, and how soon it would expose whom (``peel plan``)."""
