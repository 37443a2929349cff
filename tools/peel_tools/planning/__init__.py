# SPDX-License-Identifier: MIT
"""The planner (`peel plan`): a fleet's accuracy, privacy and costs, and how soon it would expose attackers."""
