# SPDX-License-Identifier: MIT
"""New profiles: drafts with a searched seed, and proposals for the user's own CSV file."""
