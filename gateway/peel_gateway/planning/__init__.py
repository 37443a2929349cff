# SPDX-License-Identifier: MIT
"""Accuracy, privacy and advice for a planned fleet, from its size, interval and epsilon. Formulas only."""
