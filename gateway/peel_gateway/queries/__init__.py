# SPDX-License-Identifier: MIT
"""Queries of the command line and the HTTP API. They return plain tables (dicts and lists)."""
