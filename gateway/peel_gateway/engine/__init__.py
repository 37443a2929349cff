# SPDX-License-Identifier: MIT
"""What runs the screening on a store: a batch in one transaction, the recount of everything, the replay of the quarantine."""
