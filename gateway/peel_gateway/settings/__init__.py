# SPDX-License-Identifier: MIT
"""The gateway's settings: the table, and functions that read, check and print it."""

from peel_gateway.settings.reading import SettingsError, load_settings, with_store
from peel_gateway.settings.table import ENVIRONMENT_PREFIX, Setting, Settings, settings_table

__all__ = [
    "ENVIRONMENT_PREFIX",
    "Setting",
    "Settings",
    "SettingsError",
    "load_settings",
    "settings_table",
    "with_store",
]
