# SPDX-License-Identifier: MIT
"""A simulated fleet: real encoder, real MQTT, attackers by kind, and the truth about all of it beside."""
