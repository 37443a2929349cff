# SPDX-License-Identifier: MIT
"""What follows from a fleet's size, pace and budget, before there is a fleet: accuracy, privacy, advice. Formulas only."""
