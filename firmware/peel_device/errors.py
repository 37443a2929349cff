# SPDX-License-Identifier: MIT
"""What stops a device. Each error has a blink code, so that a device without a console can still say what is wrong."""


class DeviceError(Exception):
    """A fault that the device cannot repair by itself; the message says what to do."""

    blinks = 2


class ConfigError(DeviceError):
    """The bundle is missing, malformed, or has a key that is wrong or unknown. `key` names it."""

    blinks = 3

    def __init__(self, key: str, problem: str) -> None:
        super().__init__("%s: %s" % (key, problem))
        self.key = key


class EntropyError(DeviceError):
    """The board's randomness failed its check: no entropy, no report."""

    blinks = 4


class StorageError(DeviceError):
    """Stored state is damaged beyond what a power cut can do.

    Going on could repeat a report number, so the device stops.
    """

    blinks = 5


class BoardError(DeviceError):
    """The board lacks what the bundle asks for: a pin, a sensor, a network, TLS."""

    blinks = 6
