# SPDX-License-Identifier: MIT
"""Somebody on the line: connections that pass through a relay of ours, and MQTT as it looks from there."""
