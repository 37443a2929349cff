# SPDX-License-Identifier: MIT
"""Questions that people ask, and the answers as plain tables: for the command line and for the web alike."""
