# SPDX-License-Identifier: MIT
"""The Peel gateway: reports in over MQTT, screened estimates and exposures out."""
