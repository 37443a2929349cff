# SPDX-License-Identifier: MIT
"""Runs the screening on a store: batches, the recount, replays, pardons and releases."""
