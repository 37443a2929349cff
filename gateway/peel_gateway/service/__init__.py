# SPDX-License-Identifier: MIT
"""The running gateway: its parts, its status, and reloading the fleet folder."""
