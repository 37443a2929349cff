# SPDX-License-Identifier: MIT
"""What the gateway tells others of its own accord: alarms, estimates on MQTT, Home Assistant, a webhook."""
