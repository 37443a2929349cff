# SPDX-License-Identifier: MIT
"""The store on SQLite: one file, for one machine."""
