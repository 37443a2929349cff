# SPDX-License-Identifier: MIT
"""MQTT: connections to the broker, a bounded inbox, batches for the engine, acknowledgement after the commit."""
