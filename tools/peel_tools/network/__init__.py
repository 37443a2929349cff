# SPDX-License-Identifier: MIT
"""A relay for TCP connections, and MQTT packets as they pass through it."""
