# SPDX-License-Identifier: MIT
"""From the broker to the engine: one connection, a bounded inbox, batches, acknowledgement after the commit."""
