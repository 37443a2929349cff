# SPDX-License-Identifier: MIT
"""The SQL that SQLite and PostgreSQL have in common. `sqlite/` and `postgres/` hold the differences."""
