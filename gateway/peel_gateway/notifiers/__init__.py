# SPDX-License-Identifier: MIT
"""Messages that the gateway sends to other systems: exposures and alarms, estimates over MQTT, Home Assistant, a webhook."""
