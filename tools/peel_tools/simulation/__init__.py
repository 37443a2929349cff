# SPDX-License-Identifier: MIT
"""A simulated fleet: real encoder, real MQTT, attackers by kind, and a record of the truth."""
