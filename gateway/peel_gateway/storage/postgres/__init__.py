# SPDX-License-Identifier: MIT
"""The store on PostgreSQL: partitions of one database, each written by one worker at a time, for more than one machine."""
