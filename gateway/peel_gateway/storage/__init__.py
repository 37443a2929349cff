# SPDX-License-Identifier: MIT
"""The store: its interface, the SQL, and the two databases."""
