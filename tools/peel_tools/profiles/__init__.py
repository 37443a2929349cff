# SPDX-License-Identifier: MIT
"""New profiles: as text with a seed that was searched for, and those that suit a CSV file of one's own."""
