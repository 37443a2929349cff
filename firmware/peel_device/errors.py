# SPDX-License-Identifier: MIT
"""Errors that stop a device. Each has a blink code, for devices without a console."""


class DeviceError(Exception):
    """A fault that the device cannot repair. The message says what to do."""

    blinks = 2


class ConfigError(DeviceError):
    """The bundle is missing or malformed, or `key` in it is wrong or unknown."""

    blinks = 3

    def __init__(self, key: str, problem: str) -> None:
        super().__init__("%s: %s" % (key, problem))
        self.key = key


class EntropyError(DeviceError):
    """The board's sources give too little entropy, so the device does not report."""

    blinks = 4


class StorageError(DeviceError):
    """Stored state is damaged in a way that no power cut explains. Continuing could repeat a report number."""

    blinks = 5


class BoardError(DeviceError):
    """The board lacks a pin, sensor, network or TLS that the bundle asks for."""

    blinks = 6
