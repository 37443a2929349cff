# SPDX-License-Identifier: MIT
"""The store on PostgreSQL, for several machines: each partition is written by one worker at a time."""
