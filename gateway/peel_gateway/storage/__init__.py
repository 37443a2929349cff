# SPDX-License-Identifier: MIT
"""What the gateway keeps: the store's interface, SQLite behind it, and checking and replaying what it holds."""
