# SPDX-License-Identifier: MIT
"""The store's SQL, in what SQLite and PostgreSQL have in common; `sqlite/` and `postgres/` have what is particular."""
