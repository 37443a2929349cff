# SPDX-License-Identifier: MIT
"""What the gateway keeps: the store's interface, and the engines behind it."""
